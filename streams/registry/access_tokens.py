"""Tokens for a registry that requires OAuth: client credentials, exchanged at an identity provider.

The provider's own authority, time limit and errors are ours to set here, which confluent-kafka's
exchange of tokens does not allow.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any, Final

from streams.errors import RegistryRefusedError
from streams.registry.fetched_schema import RegistryUnavailableError

if TYPE_CHECKING:
    from streams.settings.registry import RegistrySettings

_RENEW_SECONDS: Final = 60
"""How long before its end a token is replaced."""
_MAY_PASS: Final = frozenset({"server_error", "temporarily_unavailable"})
"""Errors of OAuth that a later request may not meet."""


class AccessTokens:
    """The token of one client, kept until shortly before it ends. One thread at a time."""

    def __init__(self, settings: RegistrySettings, secret: str) -> None:
        """Connect to nothing yet; raises ``OSError`` for authorities that cannot be read."""
        from authlib.integrations.httpx_client import OAuth2Client

        # A registry without clusters of its own ignores the header that this becomes.
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
        self._token: Any = None

    def fields(self) -> dict[str, str]:
        """Return what confluent-kafka's client puts into the headers of a request. Blocking.

        Raises ``RegistryRefusedError`` where the provider refuses the client, and
        ``RegistryUnavailableError`` where it gives no answer.
        """
        if self._token is None or self._token.is_expired(_RENEW_SECONDS):
            self._token = self._fetched()
        return {"bearer.auth.token": self._token["access_token"], **self._other_fields}

    def forget(self) -> None:
        """Fetch another token for the next request: the registry has refused this one."""
        self._token = None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _fetched(self) -> Any:  # noqa: ANN401 - authlib has no types
        from authlib.integrations.base_client.errors import OAuthError

        try:
            token = self._client.fetch_token(self._url, grant_type="client_credentials")
        except OAuthError as error:
            if error.error in _MAY_PASS:
                raise self._no_token(error) from error
            raise RegistryRefusedError(
                f"{self._url} gives the client of registry.oauth_client_id no token: {error}"
            ) from error
        except Exception as error:  # of httpx, of ssl, or of parsing what is no token
            raise self._no_token(error) from error
        if not isinstance(token.get("access_token"), str):
            raise self._no_token("its answer has no access_token")
        return token

    def _no_token(self, why: object) -> RegistryUnavailableError:
        kind = f"{type(why).__name__}: " if isinstance(why, Exception) else ""
        return RegistryUnavailableError(f"no token from {self._url}: {kind}{why}")


def authorities_of(path: str) -> ssl.SSLContext:
    """Return TLS that trusts the certificate authorities of a file or a directory."""
    from pathlib import Path

    if Path(path).is_dir():
        return ssl.create_default_context(capath=path)
    return ssl.create_default_context(cafile=path)
