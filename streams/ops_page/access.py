"""Who may ask for what of a worker's pages.

The files of the page hold no data and are for all. Monitoring (health, metrics) and data (status,
texts, checks) need the token where there is one. Without a token, data are for this machine alone,
and only under a name of the loopback: else a page of a stranger, whose own name it lets point to
127.0.0.1, could read them with the browser of whoever visits it (DNS rebinding).
"""

from __future__ import annotations

import hmac
import re
from enum import Enum
from http import HTTPStatus
from pathlib import Path
from typing import Final, NamedTuple

from streams.errors import Problem, SettingsError
from streams.settings.named_files import FileProblemError, bounded_bytes
from streams.settings.web import WebSettings, is_loopback

_FILE_BYTES: Final = 4096
_TOKEN: Final = re.compile(r"[!-~]{16,256}")
_BEARER: Final = "bearer "


class Area(Enum):
    """What a path belongs to."""

    FILES = "files"
    MONITORING = "monitoring"
    DATA = "data"


class Refusal(NamedTuple):
    """Why not; ``reason`` is a word for programs, ``message`` names the fix."""

    status: HTTPStatus
    reason: str
    message: str


class Access:
    """The rules of one worker."""

    def __init__(self, web: WebSettings) -> None:
        """Read the token; raises ``SettingsError`` for a file that holds none."""
        token = web.token if web.token_file is None else token_of_file(web.token_file)
        self._token = None if token is None else token.encode()
        self._open_monitoring = web.open_monitoring
        self._on_loopback = web.on_loopback

    def refusal(self, area: Area, host: str | None, authorization: str | None) -> Refusal | None:
        """Return why a request is refused, by its headers ``Host`` and ``Authorization``."""
        if area is Area.FILES or (area is Area.MONITORING and self._open_monitoring):
            return None
        if self._token is not None:
            return None if self._bears(authorization) else _NO_TOKEN
        if not self._on_loopback:
            return _NOT_SERVED
        if area is Area.DATA and host is not None and not is_loopback(_name_of(host)):
            return Refusal(
                HTTPStatus.MISDIRECTED_REQUEST,
                "wrong_host",
                "without a token this address works only under a name of the loopback: use "
                "127.0.0.1 or localhost, or set web.token_file",
            )
        return None

    def _bears(self, authorization: str | None) -> bool:
        """Compare in a time that does not tell how much of the token was right."""
        assert self._token is not None
        header = authorization or ""
        if header[: len(_BEARER)].lower() != _BEARER:
            return False
        return hmac.compare_digest(header[len(_BEARER) :].strip().encode(), self._token)


_NO_TOKEN: Final = Refusal(
    HTTPStatus.UNAUTHORIZED,
    "no_token",
    "send the token of this worker (web.token): Authorization: Bearer …",
)
_NOT_SERVED: Final = Refusal(
    HTTPStatus.FORBIDDEN,
    "no_token_set",
    "this worker does not listen on the loopback and has no token, so it serves only its "
    "monitoring: set web.token_file (or web.token)",
)


def token_of_file(path: str) -> str:
    """Return the token that a file holds, less white space at its ends.

    Raises ``SettingsError`` for a file that cannot be read, or that holds something else.
    """
    try:
        content = bounded_bytes(Path(path).expanduser(), _FILE_BYTES)
    except (FileProblemError, RuntimeError) as error:  # no home
        raise _not_usable(path, f"it {error}") from None
    token = content.strip().decode("ascii", "replace")
    if not _TOKEN.fullmatch(token):
        raise _not_usable(path, "it must contain nothing but 16 to 256 visible ASCII characters")
    return token


def _not_usable(path: str, message: str) -> SettingsError:
    return SettingsError([Problem("web.token_file", repr(path), "the worker's settings", message)])


def _name_of(host: str) -> str:
    """Return the name or address of a ``Host`` header, without the port."""
    if host.startswith("["):
        return host.partition("]")[0].removeprefix("[")
    return host.partition(":")[0]
