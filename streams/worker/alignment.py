"""Alignment: with a window, workers that read an archive do not run ahead of each other.

The watermark is the highest time of all documents in the log, and entries expire behind it. A
worker that reads its partitions faster than the others would make their documents late. So a worker
does not move the watermark while shards open, as their documents may be earlier, nor far past
another worker that catches up, nor while nothing is decided, as the documents of a killed worker
are then still to come. Nothing waits while the watermark is near the present, or for a worker that
is silent or keeps pace with the clock, because it would wait for ever.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.log.records import Bundle
from simhash_core.window import Window
from streams.worker.shard import Shard

logger = logging.getLogger(__name__)

_OPENING_SECONDS: Final = 30.0  # how long documents wait for shards of this worker
_OTHERS_SECONDS: Final = 5.0  # and for those of others, which open at the same time
_HEARD_BEFORE_SECONDS: Final = 15.0  # the documents of a partition are expected to go on after this
_HEARD_SECONDS: Final = 0.5  # until the first bundles of workers that begin together are read
_SILENT_SECONDS: Final = 2.0
_GAP_SECONDS: Final = 0.3  # the same for a worker that has few documents: it may wait for this one
_PERIOD_SECONDS: Final = 1.0  # of the measured speed
_UNDECIDED_SECONDS: Final = 0.5  # then a worker is away, and documents wait for it in any case
_WATCHED_SECONDS: Final = 0.2  # a worker that holds documents back looks more often
_FAST: Final = 4.0  # times the speed of the clock: this is no live stream
# Then one bundle may be sent, so that nobody waits for ever; a worker that catches up arrives.
_HELD_SECONDS: Final = 30.0
_LINE_SECONDS: Final = 5.0
_DOCUMENTS_AHEAD: Final = 16
_MEASURED_DOCUMENTS: Final = 8  # for a mean time between them
LOOK_SECONDS: Final = 0.05


class _Sender:
    """How far another worker is, and how fast the time of its documents passes.

    ``watched`` is the clock of ``Alignment._watched``.
    """

    def __init__(self, time_ms: int, now: float, watched: float) -> None:
        self.time_ms = time_ms
        self._advanced_at = watched
        self._silent_seconds = _SILENT_SECONDS
        # Where it was at the start of the last and the current period.
        self._last = self._current = (now, time_ms)

    def sent(self, time_ms: int, now: float, watched: float, *, after_gap: bool) -> None:
        self._silent_seconds = _GAP_SECONDS if after_gap else _SILENT_SECONDS
        if time_ms > self.time_ms:
            self.time_ms, self._advanced_at = time_ms, watched
        if now - self._current[0] >= _PERIOD_SECONDS:
            self._last, self._current = self._current, (now, self.time_ms)

    def catches_up(self, now: float, watched: float) -> bool:
        since, from_ms = self._last
        if watched - self._advanced_at > self._silent_seconds:
            return False
        is_new = now - since < _PERIOD_SECONDS
        return is_new or self.time_ms - from_ms > _FAST * 1000 * (now - since)


class Alignment:
    """Says which documents a worker may send now, if its index has a window.

    ``shards`` are those of this worker.
    """

    def __init__(
        self,
        window: Window | None,
        worker: str,
        shards: Mapping[int, Shard],
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.partitions = 0  # of the raw topic; 0: not known yet
        self._window = window
        self._worker = worker
        self._shards = shards
        # Whether the watermark was far behind the clock when a bundle was last to be sent.
        self.reads_archive = window is not None
        self._has_archive = window is not None  # in the last batch; there may be one in the first
        self.is_settled = True  # the earliest records of all open shards were taken in
        self._latest_ms = 0  # the time of the latest record that was taken in
        self._now = now
        self._wall = wall
        self._moved_at = self._began_at = self._watched_at = now()
        self._watched_seconds = 0.0
        self._began_ms: int | None = None  # the watermark when nothing had to wait any more
        self._waits = False
        self._begins_index = False  # no document is in the log, and those of an archive go first
        self._undecided: int | None = None  # the first offset, and when it became that
        self._undecided_at = 0.0
        self._opening_since: float | None = None
        self._has_decided = False  # since the group moved partitions
        self._senders: dict[str, _Sender] = {}
        self._heard: dict[int, float] = {}  # when raw partitions last had documents in the log
        self._awaited: set[int] = set()  # those that had some just before the group moved any
        self._log_ms: int | None = None
        self._advance_ms = self._documents = 0  # that are measured now
        # Mean times between documents of the log; several, so that a gap does not count.
        self._spacings: deque[int] = deque(maxlen=4)
        self._held_since: float | None = None
        self._caught_up_at = -math.inf  # when another worker was last seen to catch up
        self._is_logged = False

    def _watched(self) -> float:
        """Return a clock for the silence of others, which stands still while this worker does.

        While commits wait for a broker, all workers are silent, and one is the first to go on. A
        worker that is away while nothing is decided has the documents of its partitions to send.
        """
        now = self._now()
        if not self._stands_still():
            self._watched_seconds += min(now - self._watched_at, _WATCHED_SECONDS)
        self._watched_at = now
        return self._watched_seconds

    def moved(self) -> None:
        """Note that the group assigns or revokes partitions, perhaps only of other workers."""
        self._has_decided = False
        self._await_others()

    def _await_others(self) -> None:
        self._moved_at, watched = self._now(), self._watched()
        heard = self._heard.items()
        self._awaited = {each for each, at in heard if watched - at < _HEARD_BEFORE_SECONDS}

    def read(self, bundle: Bundle, appended_ms: int) -> None:
        """Note a bundle at the end of the log."""
        if self._window is None:
            return
        now, watched = self._now(), self._watched()
        heard = {each.chain.partition: watched for each in bundle.segments}
        self._heard.update(heard)
        self._awaited -= heard.keys()
        if not len(times_ms := bundle.columns.document_times_ms):
            return
        time_ms = min(int(times_ms.max()), appended_ms)
        self._measure(time_ms, len(times_ms))
        if bundle.worker == self._worker:
            return
        if (sender := self._senders.get(bundle.worker)) is None:
            known = self._senders.items()
            self._senders = {name: each for name, each in known if each.catches_up(now, watched)}
            self._senders[bundle.worker] = _Sender(time_ms, now, watched)
        else:
            after_gap = int(times_ms.min()) - sender.time_ms > self.lead_ms
            sender.sent(time_ms, now, watched, after_gap=after_gap)

    def _measure(self, time_ms: int, documents: int) -> None:
        """Measure how far documents of the log are apart, those of all workers together."""
        if self._log_ms is None or time_ms > self._log_ms:
            self._advance_ms += 0 if self._log_ms is None else time_ms - self._log_ms
            self._log_ms = time_ms
        self._documents += documents
        if self._documents >= _MEASURED_DOCUMENTS:
            self._spacings.append(self._advance_ms // self._documents)
            self._advance_ms = self._documents = 0

    def until_ms(self, watermark_ms: int | None, undecided: int | None = None) -> int | None:
        """Return the time up to which documents may be sent; None: all.

        ``watermark_ms`` is None before the first document. ``undecided`` is the first offset of the
        log with documents that have no verdict.
        """
        self._note_undecided(undecided)
        self.reads_archive = self._window is not None and (watermark_ms or 0) < self.live_ms
        if not self.reads_archive:
            return None
        is_opening = self._is_opening()
        if is_opening or not self.is_settled or self._waits_for_others() or self._stands_still():
            self._waits, self._began_at, self._began_ms = True, self._now(), None
            return watermark_ms or 0
        now, watched = self._now(), self._watched()
        senders = self._senders.values()
        if times := [each.time_ms for each in senders if each.catches_up(now, watched)]:
            self._waits, self._caught_up_at = True, now
            return max(min(times) + self.lead_ms, watermark_ms or 0)
        if self._is_alone:
            return None
        from_ms = watermark_ms
        self._waits = self._begins_index = False
        if now - self._began_at < _HEARD_SECONDS:
            # Other workers that begin at the same time are not in the log yet.
            from_ms = self._began_ms = self._began_ms or watermark_ms
            self._waits = from_ms is not None
            self._begins_index = from_ms is None
        return (from_ms or 0) + self.lead_ms

    @property
    def live_ms(self) -> int:
        """The time from which documents are no archive."""
        assert self._window is not None
        return int(self._wall() * 1000) - self._window.lateness_ms

    @property
    def lead_ms(self) -> int:
        """How far a worker may be ahead of others, and how far a bundle moves the watermark.

        It is at least the time of some documents. Otherwise workers would wait for each other at
        each document of an archive that has few of them within the lateness.
        """
        window = self._window
        assert window is not None
        some_ms = min(_DOCUMENTS_AHEAD * min(self._spacings, default=0), window.window_ms)
        return max(window.lateness_ms // 2, window.slice_ms // 8, some_ms)

    @property
    def _is_alone(self) -> bool:
        return len(self._shards) == self.partitions

    def _note_undecided(self, offset: int | None) -> None:
        if offset == self._undecided:
            return
        now = self._now()
        if self._undecided is not None:
            if not self._has_decided or now - self._undecided_at > _SILENT_SECONDS:
                self._await_others()  # their shards have opened, and documents come now
            self._has_decided = True
        self._undecided, self._undecided_at = offset, now

    def _stands_still(self) -> bool:
        """Return whether nothing is decided, as shards of other workers are not open."""
        if self._undecided is None:
            return False
        return not self._has_decided or self._now() - self._undecided_at > _UNDECIDED_SECONDS

    def _is_opening(self) -> bool:
        if not any(each.is_opening for each in self._shards.values()):
            self._opening_since = None
            return False
        now = self._now()
        if self._opening_since is None:
            self._opening_since = now
        is_opening = now - self._opening_since < _OPENING_SECONDS
        self.is_settled = self.is_settled and not is_opening
        return is_opening

    def _waits_for_others(self) -> bool:
        """Return whether shards of other workers may be opening."""
        if self._now() - self._moved_at > _OTHERS_SECONDS or self._is_alone:
            return False
        if not self._heard.keys() - self._shards.keys():  # the group begins
            return True
        return bool(self._awaited - self._shards.keys())

    def waits_for_shards(self) -> bool:
        """Return whether documents wait for shards of this worker; then no more are taken in."""
        return self._has_archive and self._is_opening()

    def settled(self) -> None:
        """Note that the earliest records of all open shards are here, or can't be taken in."""
        self.is_settled, self._latest_ms = True, 0

    def taken_in(self, latest_ms: int, times_ms: Iterable[NDArray[np.int64]]) -> None:
        """Note the time of the latest record of a batch, and those of its documents.

        Records of shards that came from another worker may be earlier than all that wait here.
        """
        self.is_settled = self.is_settled or latest_ms >= self._latest_ms
        self._latest_ms = max(self._latest_ms, latest_ms)
        if self._window is not None:
            live_ms = self.live_ms
            self._has_archive = any(len(each) and each.min() < live_ms for each in times_ms)

    @property
    def is_holding(self) -> bool:
        """Whether documents of this worker wait for earlier ones."""
        return self._held_since is not None and not self._stands_still()

    def sent(self) -> None:
        """Note that a bundle of this worker was sent, or that it has nothing to send."""
        self._held_since = None
        self._is_logged = False

    def must_wait(self, until_ms: int, earliest_ms: int) -> bool:
        """Return whether documents later than ``until_ms`` wait, as nothing else can be sent.

        ``earliest_ms`` is the time of the earliest.
        """
        if not (self._waits or (self._begins_index and earliest_ms >= self.live_ms)):
            return False
        now = self._now()
        if self._held_since is None:
            self._held_since = now
        held = now - self._held_since
        if held > _LINE_SECONDS and not self._is_logged:
            self._is_logged = True
            logger.info(
                "documents later than %s wait for other shards or workers, which read earlier ones",
                time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(max(until_ms, 0) / 1000)),
            )
        return now - max(self._held_since, self._caught_up_at) <= _HELD_SECONDS
