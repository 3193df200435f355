"""Fetches schemas with confluent-kafka's client; a schema is unknown only if the registry says so.

An unreadable record must not stop the stream, and an absent registry must not turn good records
into dead letters. So "unknown schema", "no answer" and "user refused" are different errors. After
the last one, somebody must change the settings or the user's rights.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from streams.documents.schema_framing import SchemaId
from streams.errors import Problem, RegistryRefusedError, SettingsError
from streams.registry.schemas import (
    FetchedSchema,
    Reference,
    RegistryUnavailableError,
    UnknownSchemaError,
)
from streams.settings.named_files import secret_of_file
from streams.settings.registry import RegistrySettings

if TYPE_CHECKING:
    import httpx2
    from confluent_kafka.schema_registry import Schema
    from confluent_kafka.schema_registry.error import SchemaRegistryError

# ---- The time limit of a whole answer. That of the HTTP client is for each wait, so an answer of
# which a byte comes now and then would take any time.


def _limit_answers(client: httpx2.Client, seconds: float) -> None:
    import httpx2

    class Timed(httpx2.SyncByteStream):
        def __init__(self, stream: httpx2.SyncByteStream) -> None:
            self._stream = stream
            self._until = time.monotonic() + seconds

        def __iter__(self) -> Iterator[bytes]:
            for part in self._stream:
                if time.monotonic() > self._until:
                    raise httpx2.ReadTimeout(
                        f"no whole answer within {seconds:g} s (registry.timeout_seconds)"
                    )
                yield part

        def close(self) -> None:
            self._stream.close()

    def limit(response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.SyncByteStream)
        response.stream = Timed(response.stream)

    client.event_hooks["response"].append(limit)


# ---- OAuth tokens for a registry: client credentials, exchanged at an identity provider.
#
# confluent-kafka's own exchange has no settings for the provider's authority and time limit.

_RENEW_SECONDS: Final = 60
_TOKEN_MAY_PASS: Final = frozenset({"server_error", "temporarily_unavailable"})
"""OAuth errors that a later request may not get."""


class AccessTokens:
    """The token of one client, kept until shortly before it ends; for one thread."""

    def __init__(self, settings: RegistrySettings, secret: str) -> None:
        """Raise ``OSError`` for an unreadable file of authorities; do not connect yet."""
        from authlib.integrations.httpx_client import OAuth2Client

        # A registry that does not host several clusters ignores the resulting header.
        self._other_fields = {"bearer.auth.logical.cluster": settings.oauth_cluster or ""}
        if settings.oauth_identity_pool is not None:
            self._other_fields["bearer.auth.identity.pool.id"] = settings.oauth_identity_pool
        self._url = settings.oauth_token_url or ""
        self._client = OAuth2Client(
            client_id=settings.oauth_client_id,
            client_secret=secret,
            scope=settings.oauth_scope,
            timeout=settings.timeout_seconds,
            **({} if settings.ca_file is None else {"verify": authorities_of(settings.ca_file)}),
        )
        _limit_answers(self._client, settings.timeout_seconds)
        self._token: Any = None

    def fields(self) -> dict[str, str]:
        """Return the client's configuration with a valid token. Blocking.

        Raises ``RegistryRefusedError`` or ``RegistryUnavailableError``.
        """
        if self._token is None or self._token.is_expired(_RENEW_SECONDS):
            self._token = self._fetched()
        return {"bearer.auth.token": self._token["access_token"], **self._other_fields}

    def forget(self) -> None:
        self._token = None

    def close(self) -> None:
        self._client.close()

    def _fetched(self) -> Any:  # noqa: ANN401 - authlib has no types
        from authlib.integrations.base_client.errors import OAuthError

        try:
            token = self._client.fetch_token(self._url, grant_type="client_credentials")
        except OAuthError as error:
            if error.error in _TOKEN_MAY_PASS:
                raise self._no_token(error) from error
            raise RegistryRefusedError(
                f"{self._url} refuses a token to the client registry.oauth_client_id: {error}"
            ) from error
        except Exception as error:  # from httpx or ssl, or from parsing an answer that is no token
            raise self._no_token(error) from error
        if not isinstance(token.get("access_token"), str):
            raise self._no_token("its answer has no access_token")
        return token

    def _no_token(self, why: object) -> RegistryUnavailableError:
        kind = f"{type(why).__name__}: " if isinstance(why, Exception) else ""
        return RegistryUnavailableError(f"no token from {self._url}: {kind}{why}")


def authorities_of(path: str) -> ssl.SSLContext:
    if Path(path).is_dir():
        return ssl.create_default_context(capath=path)
    return ssl.create_default_context(cafile=path)


REFERENCES_MAX: Final = 1_000  # schemas that one schema may refer to, directly and indirectly
_REFERENCES_DEEP: Final = 100  # and the longest chain of them, which is followed by recursion

_NO_SUCH: Final = frozenset({40401, 40402, 40403})
_REFUSED: Final = frozenset({401, 403, 407})  # HTTP statuses about the user's access
_MAY_PASS: Final = frozenset({408, 425, 429})  # HTTP statuses about load
_CLIENT_ERRORS: Final = range(400, 500)

Answer = TypeVar("Answer")


class RegistryClient:
    """Asks one registry over kept connections; for one thread."""

    def __init__(self, settings: RegistrySettings, value_format: str) -> None:
        """``value_format`` is in ``SCHEMA_FORMATS``. Raises ``SettingsError``."""
        from confluent_kafka.schema_registry import SchemaRegistryClient

        self.url = settings.url or ""
        # A serialized descriptor, because .proto text would need a compiler.
        self._form = "serialized" if value_format == "protobuf" else None
        self._tokens: AccessTokens | None = None
        try:
            if settings.oauth_token_url is not None:
                self._tokens = AccessTokens(
                    settings,
                    _secret(settings.oauth_client_secret, settings.oauth_client_secret_file),
                )
            self._client = SchemaRegistryClient(_properties(settings, self._tokens))
            with suppress(AttributeError):  # another release; a slow answer is shown anyway
                session = self._client._rest_client.session  # noqa: SLF001 - it has no public name
                _limit_answers(session, settings.timeout_seconds)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise SettingsError(
                [Problem("registry", "", "the settings", f"no client can be made: {error}")]
            ) from None

    def fetch(self, schema: SchemaId) -> FetchedSchema:
        """Return a schema with all that it refers to. Blocking.

        Raises ``UnknownSchemaError``, ``RegistryUnavailableError`` or ``RegistryRefusedError``.
        """
        if not schema.is_possible:
            raise UnknownSchemaError(f"{schema} is not a valid number of a schema")
        if schema.number is None:
            request = partial(self._client.get_schema_by_guid, schema.guid, self._form)
        else:
            request = partial(self._client.get_schema, schema.number, fmt=self._form)
        references: list[Reference] = []
        try:
            answer = self._answer(request)
            self._collect(answer, references, set(), 0)
        finally:
            # They have no limit, unlike SchemaCache.
            self._client.clear_caches()  # type: ignore[no-untyped-call]
        return FetchedSchema(answer.schema_type or "AVRO", _text_of(answer), tuple(references))

    def close(self) -> None:
        self._client.close()
        if self._tokens is not None:
            self._tokens.close()

    def _collect(
        self,
        schema: Schema,
        references: list[Reference],
        seen: set[tuple[str, str, int]],
        depth: int,
    ) -> None:
        """Add the references of a schema, each once and after its own references."""
        for reference in schema.references or ():
            name, subject = reference.name or "", reference.subject or ""
            version = reference.version or 0
            if (name, subject, version) in seen:
                continue
            if len(seen) >= REFERENCES_MAX:
                raise UnknownSchemaError(f"it refers to more than {REFERENCES_MAX} other schemas")
            if depth == _REFERENCES_DEEP:
                raise UnknownSchemaError(f"its references are more than {depth} deep")
            seen.add((name, subject, version))
            request = partial(self._client.get_version, subject, version, True, self._form)
            other = self._answer(request).schema
            self._collect(other, references, seen, depth + 1)
            references.append(Reference(name, _text_of(other)))

    def _answer(self, request: Callable[[], Answer]) -> Answer:
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            return request()
        except SchemaRegistryError as error:
            if self._is_unknown_schema(error):
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
        except Exception as error:  # from httpx or ssl, or from parsing another answer
            raise RegistryUnavailableError(f"{type(error).__name__}: {error}") from error

    def _refused(self, error: SchemaRegistryError) -> RegistryRefusedError:
        return RegistryRefusedError(
            f"the schema registry {self.url} refuses access (HTTP {error.http_status_code}: "
            f"{error.error_message}): check registry.username and its password, or the "
            "registry.oauth_… settings, and whether that user may read the schemas"
        )

    def _is_unknown_schema(self, error: SchemaRegistryError) -> bool:
        """Return whether the registry itself says that it has no such schema.

        For an unreadable GUID or number, some registries answer a plain 404, as for a wrong URL. At
        a wrong URL, a request for the types of schemas fails too.
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


def _text_of(schema: Schema) -> str:
    """Raise ``RegistryUnavailableError`` for JSON that is no answer of a registry."""
    text: object = schema.schema_str
    if not isinstance(text, str):
        raise RegistryUnavailableError("its answer has no schema")
    return text


def _properties(settings: RegistrySettings, tokens: AccessTokens | None) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "url": settings.url,
        "timeout": settings.timeout_seconds,
        "max.retries": 0,  # the caller tries again, and logs it
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
    return (value or "") if file is None else secret_of_file(file)
