"""Fetches schemas with confluent-kafka's client, and tells "there is none" from "no answer".

A record that nobody can read must not stop the stream, and a registry that is away must not make
a dead letter of a good record. So only an answer of the registry itself counts as "unknown".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from streams.documents.schema_framing import SchemaId
from streams.errors import Problem, SettingsError
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
_MAY_PASS: Final = frozenset({401, 403, 407, 408, 425, 429})
"""Answers that have to do with access or load, and not with the schema."""
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
        try:
            self._client = SchemaRegistryClient(_properties(settings))
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise SettingsError(
                [Problem("registry", "", "the settings", f"no client can be made: {error}")]
            ) from None

    def fetch(self, schema: SchemaId) -> FetchedSchema:
        """Return a schema, with all that it refers to. Blocking.

        Raises ``UnknownSchemaError``, and ``RegistryUnavailableError`` where the registry did not
        answer.
        """
        if not schema.is_possible:
            raise UnknownSchemaError(f"no registry gives a schema the number {schema}")
        if schema.number is None:
            ask = partial(self._client.get_schema_by_guid, schema.guid, self._form)
        else:
            ask = partial(self._client.get_schema, schema.number, fmt=self._form)
        references: dict[tuple[str, str, int], Reference] = {}
        try:
            answer = self._asked(ask)
            self._collect(answer, references, ())
        finally:
            # They have no limit, and SchemaCache has one.
            self._client.clear_caches()  # type: ignore[no-untyped-call]
        kind, text = answer.schema_type or "AVRO", answer.schema_str or ""
        return FetchedSchema(kind, text, tuple(references.values()))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

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
            ask = partial(self._client.get_version, subject, version, True, self._form)
            other = self._asked(ask).schema
            self._collect(other, references, (*path, version_of))
            references[version_of] = Reference(version_of[0], other.schema_str or "")

    def _asked(self, ask: Callable[[], Answer]) -> Answer:
        """Return the answer of the registry; raises as ``fetch``."""
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            return ask()
        except SchemaRegistryError as error:
            if self._says_no_such(error):
                raise UnknownSchemaError(error.error_message or "no such schema") from None
            raise RegistryUnavailableError(
                f"it answers with HTTP {error.http_status_code}: {error.error_message}"
            ) from error
        except Exception as error:  # of httpx, of ssl, or of parsing what is no registry's answer
            raise RegistryUnavailableError(f"{type(error).__name__}: {error}") from error

    def _says_no_such(self, error: SchemaRegistryError) -> bool:
        """Return whether the registry itself says that it has no such schema.

        Some answer a GUID or a number that they cannot read by a plain 404, which a wrong URL has
        too: what else a registry answers there tells them apart.
        """
        if error.error_code in _NO_SUCH:
            return True
        status = error.http_status_code
        if status not in _CLIENT_ERRORS or status in _MAY_PASS:
            return False
        try:
            return isinstance(self._client.get_schema_types(), list)
        except Exception:  # noqa: BLE001 - whatever it is, it is no answer of a registry
            return False


def _properties(settings: RegistrySettings) -> dict[str, Any]:
    """Return the client's properties; raises ``ValueError`` for a password that cannot be read."""
    properties: dict[str, Any] = {
        "url": settings.url,
        "timeout": settings.timeout_seconds,
        "max.retries": 0,  # whoever asks tries again, and logs it
    }
    if settings.username is not None:
        password = settings.password
        if settings.password_file is not None:
            password = secret_of_file(settings.password_file)
        properties["basic.auth.user.info"] = f"{settings.username}:{password}"
    files = {
        "ssl.ca.location": settings.ca_file,
        "ssl.certificate.location": settings.certificate_file,
        "ssl.key.location": settings.key_file,
    }
    return properties | {name: path for name, path in files.items() if path is not None}
