"""Fetches schemas with confluent-kafka's client: "there is none", "no answer" or "not for you".

A record that nobody can read must not stop the stream, and a registry that is away must not make
a dead letter of a good record. So only an answer of the registry itself counts as "unknown". Where
it refuses the user, somebody must change the settings or the user's rights.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from streams.documents.schema_framing import SchemaId
from streams.errors import Problem, RegistryRefusedError, SettingsError
from streams.registry.access_tokens import AccessTokens
from streams.registry.fetched_schema import (
    FetchedSchema,
    Reference,
    RegistryUnavailableError,
    UnknownSchemaError,
)
from streams.settings.named_files import secret_of_file
from streams.settings.registry import RegistrySettings

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema
    from confluent_kafka.schema_registry.error import SchemaRegistryError

REFERENCES_MAX: Final = 1_000
"""Schemas that one schema may refer to, directly and by others."""

_NO_SUCH: Final = frozenset({40401, 40402, 40403})
"""Error codes of a registry: no such subject, version, schema."""
_REFUSED: Final = frozenset({401, 403, 407})
"""Answers that have to do with the user's access, and not with the schema."""
_MAY_PASS: Final = frozenset({408, 425, 429})
"""Answers that have to do with load."""
_CLIENT_ERRORS: Final = range(400, 500)

Answer = TypeVar("Answer")


class RegistryClient:
    """Asks one registry, by one HTTP client, which keeps its connections. One thread at a time."""

    def __init__(self, settings: RegistrySettings, value_format: str) -> None:
        """Connect to nothing yet. ``value_format``: of ``SCHEMA_FORMATS``.

        Raises ``SettingsError`` for a password or a certificate that cannot be read.
        """
        from confluent_kafka.schema_registry import SchemaRegistryClient

        self.url = settings.url or ""
        # The .proto text would need a compiler; a serialized descriptor needs none.
        self._form = "serialized" if value_format == "protobuf" else None
        self._tokens: AccessTokens | None = None
        try:
            if settings.oauth_token_url is not None:
                self._tokens = AccessTokens(
                    settings,
                    _secret(settings.oauth_client_secret, settings.oauth_client_secret_file),
                )
            self._client = SchemaRegistryClient(_properties(settings, self._tokens))
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise SettingsError(
                [Problem("registry", "", "the settings", f"no client can be made: {error}")]
            ) from None

    def fetch(self, schema: SchemaId) -> FetchedSchema:
        """Return a schema, with all that it refers to. Blocking.

        Raises ``UnknownSchemaError``, ``RegistryUnavailableError`` where the registry did not
        answer, and ``RegistryRefusedError`` where it refuses the user.
        """
        if not schema.is_possible:
            raise UnknownSchemaError(f"no registry gives a schema the number {schema}")
        if schema.number is None:
            request = partial(self._client.get_schema_by_guid, schema.guid, self._form)
        else:
            request = partial(self._client.get_schema, schema.number, fmt=self._form)
        references: dict[tuple[str, str, int], Reference] = {}
        try:
            answer = self._answer(request)
            self._collect(answer, references, ())
        finally:
            # They have no limit, and SchemaCache has one.
            self._client.clear_caches()  # type: ignore[no-untyped-call]
        kind, text = answer.schema_type or "AVRO", answer.schema_str or ""
        return FetchedSchema(kind, text, tuple(references.values()))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        if self._tokens is not None:
            self._tokens.close()

    def _collect(
        self,
        schema: Schema,
        references: dict[tuple[str, str, int], Reference],
        path: tuple[tuple[str, str, int], ...],
    ) -> None:
        """Add what a schema refers to to ``references``, each after what it refers to itself."""
        for reference in schema.references or ():
            version_of = (reference.name or "", reference.subject or "", reference.version or 0)
            if version_of in references or version_of in path:
                continue
            if len(references) + len(path) >= REFERENCES_MAX:
                raise UnknownSchemaError(f"it refers to more than {REFERENCES_MAX} other schemas")
            _, subject, version = version_of
            request = partial(self._client.get_version, subject, version, True, self._form)
            other = self._answer(request).schema
            self._collect(other, references, (*path, version_of))
            references[version_of] = Reference(version_of[0], other.schema_str or "")

    def _answer(self, request: Callable[[], Answer]) -> Answer:
        """Return the answer of the registry; raises as ``fetch``."""
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            return request()
        except SchemaRegistryError as error:
            if self._says_no_such(error):
                raise UnknownSchemaError(error.error_message or "no such schema") from None
            if error.http_status_code in _REFUSED:
                if self._tokens is not None:
                    self._tokens.forget()
                raise self._refused(error) from error
            raise RegistryUnavailableError(
                f"it answers with HTTP {error.http_status_code}: {error.error_message}"
            ) from error
        except (RegistryRefusedError, RegistryUnavailableError):  # of the tokens
            raise
        except Exception as error:  # of httpx, of ssl, or of parsing what is no registry's answer
            raise RegistryUnavailableError(f"{type(error).__name__}: {error}") from error

    def _refused(self, error: SchemaRegistryError) -> RegistryRefusedError:
        return RegistryRefusedError(
            f"the schema registry {self.url} refuses access (HTTP {error.http_status_code}: "
            f"{error.error_message}): check registry.username and its password, or the "
            "registry.oauth_… settings, and whether that user may read the schemas"
        )

    def _says_no_such(self, error: SchemaRegistryError) -> bool:
        """Return whether the registry itself says that it has no such schema.

        Some answer a GUID or a number that they cannot read by a plain 404, which a wrong URL has
        too: what else a registry answers there tells them apart.
        """
        if error.error_code in _NO_SUCH:
            return True
        status = error.http_status_code
        if status not in _CLIENT_ERRORS or status in _MAY_PASS | _REFUSED:
            return False
        try:
            return isinstance(self._client.get_schema_types(), list)
        except Exception:  # noqa: BLE001 - whatever it is, it is no answer of a registry
            return False


def _properties(settings: RegistrySettings, tokens: AccessTokens | None) -> dict[str, Any]:
    """Return the client's properties; raises ``ValueError`` for a password that cannot be read."""
    properties: dict[str, Any] = {
        "url": settings.url,
        "timeout": settings.timeout_seconds,
        "max.retries": 0,  # whoever asks tries again, and logs it
    }
    if settings.username is not None:
        password = _secret(settings.password, settings.password_file)
        properties["basic.auth.user.info"] = f"{settings.username}:{password}"
    if tokens is not None:
        properties |= {
            "bearer.auth.credentials.source": "CUSTOM",
            "bearer.auth.custom.provider.function": lambda _: tokens.fields(),
            "bearer.auth.custom.provider.config": {},
        }
    files = {
        "ssl.ca.location": settings.ca_file,
        "ssl.certificate.location": settings.certificate_file,
        "ssl.key.location": settings.key_file,
    }
    return properties | {name: path for name, path in files.items() if path is not None}


def _secret(value: str | None, file: str | None) -> str:
    """Return a secret; raises ``ValueError`` for a file that cannot be read."""
    return (value or "") if file is None else secret_of_file(file)
