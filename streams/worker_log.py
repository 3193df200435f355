"""The log of a worker: lines for people or JSON objects, on standard error.

Faust logs each of its many services; only its warnings are of use here.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
import time
from typing import Final

from simhash_core.errors import FirstseenError
from streams.kafka.command_config import LIBRDKAFKA
from streams.settings.settings import LogFormat, LogSettings

logger = logging.getLogger(__name__)

_FAUST: Final = ("faust", "mode", "streams.app")
_CHATTY: Final = (*_FAUST, "aiokafka", "asyncio", "kafka")

_QUIET_SECONDS: Final = 10.0
_DIGITS: Final = re.compile(r"\d+")

_REPEATED: Final = "We experienced a crash!"
_CHAIN_MAX: Final = 20

_KNOWN_WARNINGS: Final = (
    "enable.gapless.guarantee is experimental",
    "is a consumer property and will be ignored by this producer instance",
    "is a producer property and will be ignored by this consumer instance",
    # aiokafka's and librdkafka's words for a broker that has just made its internal topics.
    "GroupCoordinatorNotAvailableError",
    "Coordinator load in progress: retrying",
)
"""Warnings that say nothing to an operator: of settings that are ours or passed on to all clients,
and of what passes by itself.
"""


class _JsonLines(logging.Formatter):
    """One object a line, in UTC."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class _OneOfMany(logging.Filter):
    """Lets a message of a Kafka client's through once in ten seconds.

    While a broker is away there are eighty a second of the same few.
    """

    def __init__(self) -> None:
        super().__init__()
        self._next: dict[tuple[str, object], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.startswith("aiokafka"):
            message = record.name, record.msg  # before its arguments are put in
        elif record.name == LIBRDKAFKA:
            message = record.name, _DIGITS.sub("", record.getMessage())  # clients, ports, times
        else:
            return True
        if record.created < self._next.get(message, 0):
            return False
        self._next[message] = record.created + _QUIET_SECONDS
        return True


class _NotKnown(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        return not any(known in message for known in _KNOWN_WARNINGS)


class _NotToldAgain(logging.Filter):
    """Drops what Faust says of a failure of ours, up to five tracebacks: the last line says it.

    Of an error that we did not raise on purpose it is the only trace, and stays.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith(_FAUST):
            return True
        if _REPEATED in record.getMessage():
            return False
        told = list(record.args) if isinstance(record.args, tuple) else []
        told.append(record.exc_info[1] if record.exc_info else None)
        return not any(_is_ours(each) for each in told)


def _is_ours(error: object) -> bool:
    """Whether an error, or one that it came of, is Firstseen's, or a task that was cancelled."""
    seen = 0
    while isinstance(error, BaseException) and seen < _CHAIN_MAX:
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
    handler.addFilter(_NotKnown())
    handler.addFilter(_OneOfMany())
    if settings.level != "debug":
        handler.addFilter(_NotToldAgain())
    if settings.format is LogFormat.JSON:
        handler.setFormatter(_JsonLines())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=settings.level.upper(), handlers=[handler], force=True)
    for name in _CHATTY:
        if settings.level != "debug":
            logging.getLogger(name).setLevel(logging.WARNING)
