"""Secrets in files of their own, as orchestrators hand them out: one secret, nothing else in it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from streams.settings.bounded_file import FileProblemError, bounded_text

SECRET_FILES: Final[Mapping[str, str]] = MappingProxyType(
    {
        f"{name}.file": name
        for name in (
            "sasl.password",
            "sasl.oauthbearer.client.secret",
            "ssl.key.password",
            "ssl.keystore.password",
        )
    }
)
"""Kafka properties of ours that name a file, and the property whose value is in it."""

_BYTES_MAX: Final = 64 * 1024


def secret_of_file(path: str) -> str:
    """Return what a file holds, less one end of line.

    Raises ``ValueError`` without the path in its message: it may be the secret itself, given by
    the wrong name.
    """
    try:
        secret = bounded_text(path, _BYTES_MAX)
    except FileProblemError as error:
        raise ValueError(f"the file that it names {error}") from None
    secret = secret.removesuffix("\n").removesuffix("\r")
    if not secret or "\0" in secret:
        raise ValueError("the file that it names is empty, or no text")
    return secret
