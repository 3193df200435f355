"""Latency and idleness: one worker, from the sending of a document to its readable output.

Each worker is watched idle, then at a low rate, and then at half of the rate at which it has just
worked off a backlog.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import numpy as np

from benchmarks.command import say
from benchmarks.contest.broker import ContestBroker
from benchmarks.contest.feed import shuffled, taken
from benchmarks.contest.shapes import wide
from benchmarks.contest.speed import WARM_UP, Live, warm
from benchmarks.texts import CHARACTERS

PARTITIONS: Final = (1, 4, 16)
LOW_RATE: Final = 100.0
"""Documents a second."""

_RATE_SECONDS: Final = 10.0
_RATE_WARM_SECONDS: Final = 30.0
"""At half of the rate before what counts: the broker compiles what many small requests need. On 16
partitions commits became three to nine times as fast in its first 20 seconds at that rate."""
_IDLE_SECONDS: Final = 5.0
_SETTLE_SECONDS: Final = 3.0
_MILLISECONDS: Final = 1_000


class Waits(msgspec.Struct, frozen=True):
    """Milliseconds from sent to readable: the median, and what 99 of 100 documents keep.

    ``rate``: documents a second.
    """

    rate: float
    p50: float
    p99: float


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of one worker. ``idle_share``: of a processor, without any documents."""

    idle_share: float
    low: Waits
    half: Waits


def observe(rounds: int, texts: Sequence[str], broker: ContestBroker) -> dict[int, list[Observed]]:
    """Return what was seen in each round, by the number of partitions; raises ``MeasurementError``.

    ``texts``: those that warm up, then the backlog.
    """
    observed: dict[int, list[Observed]] = {partitions: [] for partitions in PARTITIONS}
    for number in range(1, rounds + 1):
        for partitions in PARTITIONS:
            name = f"latency-{partitions}-{number}"
            with warm(wide(partitions), name, broker, texts[:WARM_UP]) as live:
                seen = _observed(live, texts[WARM_UP:])
            observed[partitions].append(seen)
            say(
                f"round {number} of {rounds}, latency on {partitions}: p50 {seen.low.p50:.0f}, "
                f"p99 {seen.low.p99:.0f} ms; at {seen.half.rate:,.0f}/s p50 {seen.half.p50:.0f}, "
                f"p99 {seen.half.p99:.0f} ms; idle {seen.idle_share:.1%}"
            )
    return observed


def _observed(live: Live, backlog: Sequence[str]) -> Observed:
    time.sleep(_SETTLE_SECONDS)
    used, started = live.cpu_seconds(), time.monotonic()
    time.sleep(_IDLE_SECONDS)
    idle_share = (live.cpu_seconds() - used) / (time.monotonic() - started)
    others = shuffled(backlog, CHARACTERS)
    low = _waits(live, others, LOW_RATE)
    run = live.work_off(backlog)
    rate = run.documents / run.seconds / 2
    live.feed.send_paced(taken(others, round(rate * _RATE_WARM_SECONDS)), rate, at_once=False)
    live.await_all()
    half = _waits(live, others, rate)
    return Observed(idle_share=idle_share, low=low, half=half)


def _waits(live: Live, texts: Iterator[str], rate: float) -> Waits:
    documents = taken(texts, round(rate * _RATE_SECONDS))
    sent_at = live.feed.send_paced(documents, rate, at_once=rate == LOW_RATE)
    live.await_all()
    waits = [(live.outputs.at[key] - sent) * _MILLISECONDS for key, sent in sent_at.items()]
    p50, p99 = np.percentile(waits, (50, 99)).tolist()
    return Waits(rate=rate, p50=p50, p99=p99)
