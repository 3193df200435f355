"""The log of a worker: lines for people or JSON objects, on standard error.

Faust logs each of its many services; only its warnings are of use here.
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
from streams.settings.settings import LogFormat, LogSettings

logger = logging.getLogger(__name__)

_FAUST: Final = ("faust", "mode", "streams.app")
_CHATTY: Final = (*_FAUST, "aiohttp", "asyncio")

_NAMES: Final = {
    "asctime": "time",
    "levelname": "level",
    "name": "logger",
    "exc_info": "traceback",
}
_QUIET_SECONDS: Final = 10.0
_DIGITS: Final = re.compile(r"\d+")

_CRASHED: Final = ("We experienced a crash!", "Crashed reason=")
"""What Faust logs of a failure: once for each service, and once with the traceback in its text."""
_CHAIN_LIMIT: Final = 20

_REPORTED_ELSEWHERE: Final = frozenset({"TXNERR", "BGQUEUE", "TERMINATE"})
"""Facilities of librdkafka whose lines repeat an error that the call returned as well.

``TXNERR`` comes at level ERROR with every transaction that a rebalance ends. The worker logs what
that means, if anything, when it has the error from the call.
"""

_KNOWN_WARNINGS: Final = (
    "enable.gapless.guarantee is experimental",
    "is a consumer property and will be ignored by this producer instance",
    "is a producer property and will be ignored by this consumer instance",
    # A broker that has just created its internal topics.
    "Coordinator load in progress: retrying",
)
"""Warnings that do not help an operator: of settings that are passed to all clients alike, and of
what passes by itself.
"""


class _JsonLines(JsonFormatter):
    """One object a line: time (UTC), level, logger, message, and traceback where there is one."""

    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self) -> None:
        super().__init__(
            ["asctime", "levelname", "name", "message"],
            style=",",
            rename_fields=_NAMES,
            json_ensure_ascii=False,
        )
        self.converter = time.gmtime

    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        return log_data | {"level": log_data["level"].lower()}


class _LibrdkafkaFilter(logging.Filter):
    """Of librdkafka's lines, lets through what the worker does not say itself, and not too often.

    While a broker is away there are eighty lines a second, of the same few: each comes once in ten
    seconds.
    """

    def __init__(self) -> None:
        super().__init__()
        self._next: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name != LIBRDKAFKA:
            return True
        if (
            isinstance(record.args, tuple)
            and record.args[:1]
            and record.args[0] in (_REPORTED_ELSEWHERE)
        ):
            return False
        message = record.getMessage()
        if any(known in message for known in _KNOWN_WARNINGS):
            return False
        kind = _DIGITS.sub("", message)  # without clients, ports and times
        if record.created < self._next.get(kind, 0):
            return False
        self._next[kind] = record.created + _QUIET_SECONDS
        return True


class _FaustFilter(logging.Filter):
    """Of what Faust logs of a failure, up to five tracebacks, lets one line at most through.

    A failure of ours is the last line of the worker anyway (``log_end``). An error that nobody
    raised on purpose is a defect: its traceback comes once, under a message in plain words.
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
            record.msg, record.args = (
                "the worker stops after an error in its code: %r",
                (self._last,),
            )
            record.exc_info = type(self._last), self._last, self._last.__traceback__
        return bool(errors) or not is_crash


def _is_expected(error: BaseException | None) -> bool:
    """Return whether an error, or one of its causes, is ours, or a task that was cancelled."""
    seen = 0
    while error is not None and seen < _CHAIN_LIMIT:
        if isinstance(error, FirstseenError | asyncio.CancelledError):
            return True
        error, seen = error.__cause__ or error.__context__, seen + 1
    return False


def log_end(error: FirstseenError) -> None:
    """Log what ends the worker."""
    logger.critical("stopped: %s", error)


def set_up_logging(settings: LogSettings) -> None:
    """Send all logging of this process to standard error, as ``settings`` say."""
    handler = logging.StreamHandler(sys.stderr)
    if settings.level != "debug":
        handler.addFilter(_LibrdkafkaFilter())
        handler.addFilter(_FaustFilter())
        for name in _CHATTY:
            logging.getLogger(name).setLevel(logging.WARNING)
    if settings.format is LogFormat.JSON:
        handler.setFormatter(_JsonLines())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=settings.level.upper(), handlers=[handler], force=True)
