"""The last progress record of a partition of the changelog, found by reading back from its end."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any, Final

from streams.store.changelog_codec import LoggedProgress
from streams.store.changelog_reader import Changelog

_FIRST_STEP: Final = 8
_STEP_GROWTH: Final = 8


def last_progress(
    topic: str,
    partition: int,
    config: Mapping[str, Any],
    timeout_seconds: float,
) -> LoggedProgress | None:
    """Return the last progress that is committed; None: there is none.

    Each transaction ends with one, so that the first step back nearly always finds it. ``config``:
    librdkafka's, with a ``group.id``. ``timeout_seconds`` bounds each wait for the broker.

    Blocking. Raises ``RecoveryError`` and ``ChangelogFormatError`` for what cannot be read,
    ``UnansweredError`` where the broker says nothing.
    """
    log = Changelog(topic, partition, config, timeout_seconds, threading.Event(), may_be_cut=True)
    low, high = log.ends()
    progress: LoggedProgress | None = None
    for first in steps_back(low, high):
        for batch in log.read(first, _say_nothing):
            progress = batch.decoded().progress or progress
        if progress is not None:
            break
    return progress


def steps_back(low: int, high: int) -> Iterator[int]:
    """Yield where to begin to read, ever further back from ``high``, ``low`` last."""
    step = _FIRST_STEP
    while high - step > low:
        yield high - step
        step *= _STEP_GROWTH
    if high > low:
        yield low


def _say_nothing(records_left: int) -> None:
    """Take no note of how many records are left."""
