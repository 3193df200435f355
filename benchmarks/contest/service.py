"""Latency, idle CPU time and stalls of workers, as users run them.

One worker is observed while it is idle, at a low rate, and at half of the rate at which it has just
processed a backlog; the ceiling is observed at that rate, too. Then three workers share three
partitions with a large index. Documents are sent at a low rate while one worker after the other is
killed, and started again when the other two have its partition.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice, pairwise
from typing import Final

import msgspec
import numpy as np

from benchmarks.command import say
from benchmarks.contest.broker import ContestBroker
from benchmarks.contest.contenders import SESSION_SECONDS, await_shared
from benchmarks.contest.documents import shuffled
from benchmarks.contest.shapes import ceiling, wide
from benchmarks.contest.speed import WARM_UP, Live, warm
from benchmarks.texts import CHARACTERS

PARTITIONS: Final = (1, 16, 64)
LOW_RATE: Final = 100.0
"""Documents per second."""

_RATE_SECONDS: Final = 10.0
_RATE_WARM_SECONDS: Final = 30.0
"""Warm-up before a rate is measured: the broker compiles its code for small requests."""
_IDLE_SECONDS: Final = 5.0
_SETTLE_SECONDS: Final = 3.0
_MILLISECONDS: Final = 1_000
_WORKERS: Final = 3
_BEFORE_SECONDS: Final = 5.0
_AFTER_SECONDS: Final = 2 * SESSION_SECONDS
_CHARACTERS: Final = 120
"""Length of the documents in the index: enough to be decidable, and short to save time."""
_LOAD: Final = 20_000


class Waits(msgspec.Struct, frozen=True):
    """Milliseconds from sending a document to reading its output: median and 99th percentile.

    ``rate`` is in documents per second, ``core_share`` the share of a core that the workers take.
    """

    rate: float
    p50: float
    p99: float
    core_share: float


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """``idle_share`` is the share of a processor that a worker takes without any documents.

    ``half`` and ``ceiling`` are at the same rate.
    """

    idle_share: float
    low: Waits
    half: Waits
    ceiling: Waits


def observe(rounds: int, texts: Sequence[str], broker: ContestBroker) -> dict[int, list[Observed]]:
    """Return the figures of each round, by number of partitions; raises ``MeasurementError``.

    ``texts`` are the documents of the warm-up, then those of the backlog.
    """
    observed: dict[int, list[Observed]] = {partitions: [] for partitions in PARTITIONS}
    for number in range(1, rounds + 1):
        for partitions in PARTITIONS:
            name = f"latency-{partitions}-{number}"
            with warm(wide(partitions), name, broker, texts[:WARM_UP]) as live:
                idle_share, low, half = _observed(live, texts[WARM_UP:])
            with warm(ceiling(partitions), f"{name}-ceiling", broker, texts[:WARM_UP]) as live:
                beside = _steady(live, shuffled(texts[WARM_UP:], CHARACTERS), half.rate)
            seen = Observed(idle_share=idle_share, low=low, half=half, ceiling=beside)
            observed[partitions].append(seen)
            say(f"round {number} of {rounds}, latency on {partitions}: {seen}")
    return observed


def _observed(live: Live, backlog: Sequence[str]) -> tuple[float, Waits, Waits]:
    """Return the share of a processor without documents, and the waits at two rates."""
    time.sleep(_SETTLE_SECONDS)
    used, started = live.cpu_seconds(), time.monotonic()
    time.sleep(_IDLE_SECONDS)
    idle_share = (live.cpu_seconds() - used) / (time.monotonic() - started)
    others = shuffled(backlog, CHARACTERS)
    low = _steady(live, others, LOW_RATE)
    run = live.work_off(backlog)
    return idle_share, low, _steady(live, others, run.documents / run.seconds / 2)


def _steady(live: Live, texts: Iterator[str], rate: float) -> Waits:
    warm_up = list(islice(texts, round(rate * _RATE_WARM_SECONDS)))
    live.feed.send_paced(warm_up, rate, at_once=rate == LOW_RATE)
    live.await_all()
    return _waits(live, texts, rate)


def _waits(live: Live, texts: Iterator[str], rate: float) -> Waits:
    documents = list(islice(texts, round(rate * _RATE_SECONDS)))
    used, started = live.cpu_seconds(), time.monotonic()
    sent_at = live.feed.send_paced(documents, rate, at_once=rate == LOW_RATE)
    live.await_all()
    core_share = (live.cpu_seconds() - used) / (time.monotonic() - started)
    waits = [(live.outputs.at[key] - sent) * _MILLISECONDS for key, sent in sent_at.items()]
    p50, p99 = np.percentile(waits, (50, 99)).tolist()
    return Waits(rate=rate, p50=p50, p99=p99, core_share=core_share)


def stalls(shard_documents: int, texts: Sequence[str], broker: ContestBroker) -> list[float]:
    """Return the longest time without output after each kill, in seconds beyond the session's.

    Raises ``MeasurementError`` if a document has no output in the end, or two.
    """
    stalled = []
    with warm(wide(_WORKERS, _WORKERS), "stall", broker, texts[:WARM_UP]) as live:
        others = shuffled(texts, _CHARACTERS)
        for start in range(0, shard_documents * _WORKERS, _LOAD):
            count = min(_LOAD, shard_documents * _WORKERS - start)
            live.feed.send_all(list(islice(others, count)))
            live.await_all()
        say(f"{shard_documents:,} documents a shard are indexed")
        count = round((_BEFORE_SECONDS + _AFTER_SECONDS) * LOW_RATE)
        for number in range(_WORKERS):
            stall = _killed(live, number, list(islice(others, count))) - SESSION_SECONDS
            stalled.append(round(stall, 3))
            say(f"worker {number + 1} of {_WORKERS} killed: {stall:.1f} s beyond the session")
    return stalled


def _killed(live: Live, number: int, texts: Sequence[str]) -> float:
    """Kill a worker while documents are sent; return the longest seconds without output."""
    started = time.monotonic()
    sender = threading.Thread(target=partial(live.feed.send_paced, texts, LOW_RATE, at_once=True))
    sender.start()
    time.sleep(_BEFORE_SECONDS)
    killed = live.contenders[number]
    killed.end(signal.SIGKILL)
    sender.join()
    live.await_all()
    times = sorted(at for at in live.outputs.at.values() if at >= started)
    killed.start()
    await_shared(live.contenders, live.stream, live.broker)
    return max(later - earlier for earlier, later in pairwise(times))
