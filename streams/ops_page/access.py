"""Access rules of a worker's pages.

Files have no data and are public. Monitoring (health, metrics) and data (status, texts, checks)
need the token if there is one. Without a token, only this machine gets data, and only under a
loopback name. Otherwise a foreign page whose name resolves to 127.0.0.1 could read data through a
visitor's browser (DNS rebinding).
"""

from __future__ import annotations

import hmac
import re
import threading
import time
from collections.abc import Callable
from enum import Enum
from http import HTTPStatus
from pathlib import Path
from typing import Final, NamedTuple

from streams.errors import Problem, SettingsError
from streams.settings.named_files import FileProblemError, bounded_bytes
from streams.settings.settings import WebSettings, is_loopback

_FILE_BYTES: Final = 4096
_TOKEN: Final = re.compile(r"[!-~]{16,256}")
_BEARER: Final = "bearer "


class Area(Enum):
    FILES = "files"
    MONITORING = "monitoring"
    DATA = "data"


class Refusal(NamedTuple):
    """``reason`` is a word for programs, ``message`` names the fix."""

    status: HTTPStatus
    reason: str
    message: str


class Access:
    def __init__(self, web: WebSettings) -> None:
        """Read the token; raise ``SettingsError`` for an invalid file."""
        token = token_of(web)
        self._token = None if token is None else token.encode()
        self._open_monitoring = web.open_monitoring
        self._on_loopback = web.on_loopback

    def refusal(self, area: Area, host: str | None, authorization: str | None) -> Refusal | None:
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
                "without a token, only the names 127.0.0.1 and localhost are allowed: use one of "
                "them, or set web.token_file",
            )
        return None

    def _bears(self, authorization: str | None) -> bool:
        """Return whether a header bears the token; compare in constant time."""
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
    "this worker listens beyond the loopback and has no token, so it serves only its monitoring "
    "paths: set web.token_file (or web.token)",
)


def token_of(web: WebSettings) -> str | None:
    """Return the token, read from its file if it has one; raise ``SettingsError``."""
    path = web.token_file
    if path is None:
        return web.token
    message = "it must have 16 to 256 visible ASCII characters and nothing else"
    try:
        content = bounded_bytes(Path(path).expanduser(), _FILE_BYTES)
        token = content.strip().decode("ascii", "replace")
        if _TOKEN.fullmatch(token):
            return token
    except (FileProblemError, RuntimeError) as error:  # RuntimeError: no home directory
        message = f"it {error}"
    raise SettingsError([Problem("web.token_file", repr(path), "the worker's settings", message)])


def _name_of(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0].removeprefix("[")
    return host.partition(":")[0]


class WorkBudget:
    """A token bucket: it holds ``limit`` and is refilled by ``per_second``; thread-safe."""

    def __init__(
        self, limit: float, per_second: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = limit
        self._per_second = per_second
        self._clock = clock
        self._left = limit
        self._filled = clock()
        self._lock = threading.Lock()

    def spend(self, amount: float) -> float:
        """Spend ``amount`` and return 0, or spend nothing and return the seconds to wait.

        An amount over the limit costs the limit.
        """
        amount = min(amount, self._limit)
        with self._lock:
            now = self._clock()
            self._left = min(self._limit, self._left + (now - self._filled) * self._per_second)
            self._filled = now
            if amount > self._left:
                return (amount - self._left) / self._per_second
            self._left -= amount
            return 0.0
