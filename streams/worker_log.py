"""The log of a worker: lines for people or JSON objects, on standard error.

Faust and aiokafka tell of each of their many services; only what they warn of is of use here.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Final

from streams.settings import LogFormat, LogSettings

_CHATTY: Final = ("faust", "mode", "aiokafka", "asyncio", "kafka", "streams.committed_transport")

_QUIET_SECONDS: Final = 10.0

_KNOWN_WARNINGS: Final = (
    "enable.gapless.guarantee is experimental",
    "is a consumer property and will be ignored by this producer instance",
    "is a producer property and will be ignored by this consumer instance",
)
"""Warnings that say nothing to an operator: settings that are ours, or passed on to all clients."""


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
    """Lets a message of aiokafka's through once in ten seconds.

    While a broker is away there are eighty a second of the same few.
    """

    def __init__(self) -> None:
        super().__init__()
        self._next: dict[tuple[str, object], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith("aiokafka"):
            return True
        message = record.name, record.msg  # before its arguments are put in
        if record.created < self._next.get(message, 0):
            return False
        self._next[message] = record.created + _QUIET_SECONDS
        return True


class _NotKnown(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        return not any(known in message for known in _KNOWN_WARNINGS)


def set_up_logging(settings: LogSettings) -> None:
    """Send all logging of this process to standard error, as ``settings`` say."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_NotKnown())
    handler.addFilter(_OneOfMany())
    if settings.format is LogFormat.JSON:
        handler.setFormatter(_JsonLines())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=settings.level.upper(), handlers=[handler], force=True)
    for name in _CHATTY:
        if settings.level != "debug":
            logging.getLogger(name).setLevel(logging.WARNING)
