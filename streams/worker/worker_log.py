"""The worker's logging: text lines or JSON objects on standard error.

Faust logs each of its many services; only its warnings are useful here.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
import time
from typing import Any, Final

from pythonjsonlogger.json import JsonFormatter

from simhash_core.errors import FirstseenError
from streams.kafka.client_config import LIBRDKAFKA
from streams.kafka.connection import refusal_of
from streams.settings.settings import LogFormat, LogSettings

logger = logging.getLogger(__name__)

# ---- Rate limit


class RateLimitedLog:
    """Counts an event that may happen with every record, and logs it when the count has doubled.

    ``message`` has ``%d`` for the count and ``%s`` for the last case.
    """

    def __init__(self, logger: logging.Logger, message: str) -> None:
        self._logger = logger
        self._message = message
        self._count = 0
        self._next = 1

    def note(self, case: object, count: int = 1) -> None:
        self._count += count
        if count and self._count >= self._next:
            self._next = 2 * self._count
            self._logger.warning(self._message, self._count, case)


# ---- Filters and formats

_FAUST: Final = ("faust", "mode", "streams.worker.app")
_CHATTY: Final = (*_FAUST, "aiohttp", "asyncio")

_NAMES: Final = {"asctime": "time", "levelname": "level", "name": "logger", "exc_info": "traceback"}
_QUIET_SECONDS: Final = 10.0
_DIGITS: Final = re.compile(r"\d+")

_CRASHED: Final = ("We experienced a crash!", "Crashed reason=")
"""Faust logs a failure once for each service, and once more with its traceback as text."""
_CHAIN_LIMIT: Final = 20

_REPORTED_ELSEWHERE: Final = frozenset({"TXNERR", "BGQUEUE", "TERMINATE"})
"""librdkafka's facilities whose lines repeat an error that the call also returns.

``TXNERR`` comes at level ERROR with every transaction that a rebalance ends; the worker logs the
error from the call, if it matters."""

_KNOWN_WARNINGS: Final = (
    "enable.gapless.guarantee is experimental",
    "is a consumer property and will be ignored by this producer instance",
    "is a producer property and will be ignored by this consumer instance",
    # The broker has just created its internal topics.
    "Coordinator load in progress: retrying",
)
"""Warnings that need no action: they are about settings of all clients, and temporary states."""


class _JsonLines(JsonFormatter):
    """One JSON object per line: time (UTC), level, logger, message, and any traceback."""

    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self, process: int | None) -> None:
        super().__init__(
            ["asctime", "levelname", "name", "message"],
            style=",",
            rename_fields=_NAMES,
            static_fields={} if process is None else {"process": process},
            json_ensure_ascii=False,
        )
        self.converter = time.gmtime

    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        return log_data | {"level": log_data["level"].lower()}


class _LibrdkafkaFilter(logging.Filter):
    """Drops lines that the worker logs itself; passes others of one kind once in ten seconds.

    A line about a connection that a broker refuses gets the setting to correct.

    Without a broker, librdkafka logs about eighty lines a second, of the same few kinds.
    """

    def __init__(self) -> None:
        super().__init__()
        self._next: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name != LIBRDKAFKA:
            return True
        arguments = record.args if isinstance(record.args, tuple) else ()
        if arguments and arguments[0] in _REPORTED_ELSEWHERE:
            return False
        message = record.getMessage()
        if any(known in message for known in _KNOWN_WARNINGS):
            return False
        kind = _DIGITS.sub("", message)  # without numbers of clients, ports and times
        if record.created < self._next.get(kind, 0):
            return False
        self._next[kind] = record.created + _QUIET_SECONDS
        refusal = refusal_of(message, protocol="")
        if refusal is not None and refusal.is_certain:
            record.msg, record.args = "%s. %s: %s", (message, refusal.setting, refusal.fix)
        return True


class _FaustFilter(logging.Filter):
    """Passes only one line of Faust's up to five tracebacks of a failure.

    A ``FirstseenError`` is logged at the end anyway (``log_end``). Any other error is a defect: its
    traceback is logged once, under a plain message.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last: BaseException | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith(_FAUST):
            return True
        values = [*record.args] if isinstance(record.args, tuple) else []
        values.append(record.exc_info[1] if record.exc_info else None)
        errors = [each for each in values if isinstance(each, BaseException)]
        if any(map(_is_expected, errors)) or any(each is self._last for each in errors):
            return False
        is_crash = any(words in record.getMessage() for words in _CRASHED)
        if errors and is_crash:
            self._last = errors[-1]
            record.levelno, record.levelname = logging.CRITICAL, "CRITICAL"
            record.msg = "the worker stops after an error in its code: %r"
            record.args = (self._last,)
            record.exc_info = type(self._last), self._last, self._last.__traceback__
        return bool(errors) or not is_crash


def _is_expected(error: BaseException | None) -> bool:
    """Return whether an error or one of its causes is a ``FirstseenError`` or a cancellation."""
    seen = 0
    while error is not None and seen < _CHAIN_LIMIT:
        if isinstance(error, FirstseenError | asyncio.CancelledError):
            return True
        error, seen = error.__cause__ or error.__context__, seen + 1
    return False


def log_end(error: FirstseenError) -> None:
    logger.critical("stopped: %s", error)


def set_up_logging(settings: LogSettings, process: int | None = None) -> None:
    """Log to standard error; ``process`` marks the lines where a machine has several workers."""
    handler = logging.StreamHandler(sys.stderr)
    if settings.level != "debug":
        handler.addFilter(_LibrdkafkaFilter())
        handler.addFilter(_FaustFilter())
        for name in _CHATTY:
            logging.getLogger(name).setLevel(logging.WARNING)
    if settings.format is LogFormat.JSON:
        handler.setFormatter(_JsonLines(process))
    else:
        mark = "" if process is None else f"process {process}: "
        handler.setFormatter(
            logging.Formatter(f"%(asctime)s %(levelname)s {mark}%(name)s: %(message)s")
        )
    logging.basicConfig(level=settings.level.upper(), handlers=[handler], force=True)
