"""How long all outputs stand still when one of three workers is killed, with a large index.

The workers share three partitions, one each. Documents flow at a low rate while one worker after
the other is killed by SIGKILL and started again when the rest has taken over.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from benchmarks.command import say
from benchmarks.contest.broker import ContestBroker
from benchmarks.contest.contenders import SESSION_SECONDS, await_shared
from benchmarks.contest.feed import shuffled, taken
from benchmarks.contest.shapes import wide
from benchmarks.contest.speed import WARM_UP, Live, warm

WORKERS: Final = 3

_RATE: Final = 100.0
_BEFORE_SECONDS: Final = 5.0
_AFTER_SECONDS: Final = 2 * SESSION_SECONDS
_CHARACTERS: Final = 120
"""Of the documents in the index: long enough to be decidable, short to be quick."""

_LOAD: Final = 20_000


def stalls(shard_documents: int, texts: Sequence[str], broker: ContestBroker) -> list[float]:
    """Return the longest time without output after each kill, in seconds beyond the session's.

    Raises ``MeasurementError`` for documents that have no output in the end, or two.
    """
    stalled = []
    with warm(wide(WORKERS, WORKERS), "stall", broker, texts[:WARM_UP]) as live:
        others = shuffled(texts, _CHARACTERS)
        for start in range(0, shard_documents * WORKERS, _LOAD):
            live.feed.send_all(taken(others, min(_LOAD, shard_documents * WORKERS - start)))
            live.await_all()
        say(f"{shard_documents:,} documents a shard are indexed")
        count = round((_BEFORE_SECONDS + _AFTER_SECONDS) * _RATE)
        for number in range(WORKERS):
            stall = _killed(live, number, taken(others, count)) - SESSION_SECONDS
            stalled.append(round(stall, 3))
            say(f"worker {number + 1} of {WORKERS} killed: {stall:.1f} s beyond the session")
    return stalled


def _killed(live: Live, number: int, texts: Sequence[str]) -> float:
    """Kill a worker while documents flow; return the longest time without output, in seconds."""
    started, known = time.monotonic(), len(live.outputs.at)
    sender = threading.Thread(
        target=live.feed.send_paced, args=(texts, _RATE), kwargs={"at_once": True}
    )
    sender.start()
    time.sleep(_BEFORE_SECONDS)
    killed = live.contenders[number]
    killed.end(signal.SIGKILL)
    sender.join()
    live.await_all()
    times = sorted(at for at in live.outputs.at.values() if at >= started)
    assert len(times) == len(live.outputs.at) - known
    killed.start()
    await_shared(live.contenders, live.stream, live.broker)
    return max(later - earlier for earlier, later in pairwise(times))
