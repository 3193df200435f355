"""Deduplication of a stream of texts in this process."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from datetime import datetime
from itertools import count, pairwise
from pathlib import Path
from typing import Final, Self

from firstseen.fingerprinting import (
    checked_list,
    checked_settings,
    checked_string,
    checked_strings,
    described,
)
from simhash_core.documents import Document, SourcePosition
from simhash_core.errors import FirstseenError, UsageError
from simhash_core.fingerprints.fingerprint import WORD_BITS
from simhash_core.index.look_up import Nearness
from simhash_core.log.columns import PacketRows, verdict_of
from simhash_core.log.local_decider import LocalDecider
from simhash_core.log.records import NO_CONTROL, Chain, Packet, Progress, Sender, sequence_number
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import DEFAULT_PROFILE
from simhash_core.verdicts import Verdict
from streams.documents.fields import checked_id
from streams.documents.json_values import UnreadableError
from streams.documents.timestamps import TimestampError, parse_timestamp
from streams.offline.local_dedup import open_local_index
from streams.settings.settings import IndexSettings, Settings
from streams.store.row_codec import StoredProgress

_STREAM: Final = "stream"
_APPLICATION: Final = "python"  # the owner of the state, so that no worker and no command opens it

_TOGETHER: Final = 512
_MS: Final = 1000

Time = datetime | int  # a datetime with a zone, or milliseconds since 1970


class Deduplicator:
    """Says for each text whether a similar one came before, and which one.

    It is not thread-safe. It is a context manager, whose end calls ``close``. With a state
    directory it remembers texts after a restart, even if the process was killed: ``add`` stores a
    text before it returns.

    Example:
        >>> with Deduplicator("classic") as seen:
        ...     seen.add("今天北京下雪，地铁照常运行。", id="a")
        Undecidable(reason=<UndecidableReason.TOO_FEW_FEATURES: 'too_few_features'>)
    """

    def __init__(
        self,
        profile: str = DEFAULT_PROFILE,
        *,
        state: str | Path | None = None,
        index: IndexSettings | None = None,
    ) -> None:
        """Load the segmenter and its tables, which takes a second, and open the state.

        Args:
            profile: ``"wide"`` (finds edited copies), ``"quick"`` (in a fifth of the time) or
                ``"classic"`` (nearly equal ones; small).
            state: A directory for the state, created if missing; None: in memory.
            index: Changes to the profile, such as ``IndexSettings(window="30d")``.

        Raises:
            FirstseenError: The settings do not fit each other; or the state is open in another
                process, damaged, or of an index with other settings.
        """
        settings = Settings(profile=profile, index=checked_settings(index))
        self._fingerprinter = Fingerprinter(settings.index_profile())
        scheme = self._fingerprinter.scheme
        self._words = scheme.bits // WORD_BITS
        self._opened = ExitStack()
        directory = None if state is None else Path(state)
        self._store = self._opened.enter_context(
            open_local_index(settings, self._fingerprinter, directory, _APPLICATION)
        )
        stored = self._store.progress()
        self._arrivals = 0 if stored is None else stored.progress.next
        self._packets = 0 if stored is None else stored.progress.position
        nearness = Nearness.of(self._fingerprinter.profile)
        self._window = nearness.window
        self._is_interrupted = False
        self._decider = LocalDecider(
            nearness,
            self._store,
            self._store.prints(scheme.sketch_bands),
            None if stored is None else stored.progress.clock,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Return the number of remembered texts, which are the unique ones."""
        return len(self._store)

    @property
    def identity(self) -> str:
        """All settings that decide which texts are near, as text."""
        return self._fingerprinter.identity

    def add(self, text: str, *, id: str | None = None, time: Time | None = None) -> Verdict:  # noqa: A002 - the field's name
        """Return the verdict on a text, and remember the text if it is the first of its kind.

        Args:
            text: Not normalised.
            id: Its name in verdicts and for ``forget``; by default the number of texts before it.
            time: Its time, for indexes with a window; by default now.

        Returns:
            ``Unique()``; ``DuplicateOf`` with ``original_id``, ``distance`` and more; or
            ``Undecidable`` for a text with too few features that is no exact repeat.
        """
        text = checked_string("text", text)
        ids = None if id is None else [_checked_id("id", id)]
        times = None if time is None else [_milliseconds("time", time)]
        return self.add_batch([text], ids, times)[0]

    def add_batch(
        self,
        texts: Iterable[str],
        ids: Iterable[str] | None = None,
        times: Iterable[Time] | None = None,
    ) -> list[Verdict]:
        """Return verdicts as ``add`` would for one text after another, but much faster.

        A text of a large batch takes about a tenth of the time of ``add`` (docs/api.md).

        Raises:
            ValueError: There are not as many ids or times as texts, or one of them cannot be used:
                then no text of the batch is added.
        """
        whole = checked_strings("texts", texts)
        numbers = count(self._arrivals)
        if ids is None:
            names = [str(next(numbers)) for _ in whole]
        else:
            listed = enumerate(checked_list("ids", ids, "str"))
            names = [_checked_id(f"ids[{at}]", each) for at, each in listed]
        if times is None:
            moments = [int(time.time() * _MS)] * len(whole)
        else:
            listed = enumerate(checked_list("times", times, "datetime or int"))
            moments = [_milliseconds(f"times[{at}]", each) for at, each in listed]
        if not len(whole) == len(names) == len(moments):
            raise ValueError(f"{len(whole)} texts, {len(names)} ids and {len(moments)} times")
        verdicts: list[Verdict] = []
        for low in range(0, len(whole), _TOGETHER):
            part = slice(low, low + _TOGETHER)
            verdicts += self._decide(whole[part], names[part], moments[part])
        return verdicts

    def forget(self, id: str) -> bool:  # noqa: A002 - the field's name
        """Forget the text that was added under an id; return whether there was such a text."""
        id = _checked_id("id", id)  # noqa: A001 - the field's name
        before = len(self._store)
        rows = PacketRows(self._words)
        rows.add_delete(self._source(0), id, int(time.time() * _MS))
        self._commit(rows, 0)  # it is no text, so the next text has the same number as without it
        return len(self._store) < before

    def close(self) -> None:
        """Close the state; closing again has no effect."""
        self._opened.close()

    def _decide(
        self, texts: Sequence[str], ids: Sequence[str], times_ms: Sequence[int]
    ) -> list[Verdict]:
        prints = self._fingerprinter.fingerprint_batch(list(texts))
        verdicts: list[Verdict] = []
        for packet in self._packets_of(times_ms):
            rows = PacketRows(self._words)
            for at, row in enumerate(packet):
                source, time_ms = self._source(at), times_ms[row]
                rows.add_document(Document(ids[row], texts[row], source, time_ms), prints[row])
            verdicts += self._commit(rows, len(packet))
        return verdicts

    def _packets_of(self, times_ms: Sequence[int]) -> list[range]:
        """Divide texts into packets that give the verdicts of one by one.

        A packet sees what was there before it, and its entries expire by the watermark after it.
        So a text that moves the watermark into another slice of the window is a packet of its own.
        """
        if self._window is None:
            return [range(len(times_ms))]
        clock = self._decider.clock_before(self._packets)
        latest = None if clock is None else clock.slices[-1][0]
        bounds = {0, len(times_ms)}
        for at, time_ms in enumerate(times_ms):
            number = time_ms // self._window.slice_ms
            if latest is None or number > latest:
                latest = number
                bounds |= {at, at + 1}
        return [range(low, high) for low, high in pairwise(sorted(bounds))]

    def _source(self, at: int) -> SourcePosition:
        return SourcePosition(_STREAM, 0, self._arrivals + at)

    def _commit(self, rows: PacketRows, arrivals: int) -> list[Verdict]:
        """Decide rows and store the new entries in one step.

        An interruption, such as Ctrl-C, may come between the two. Then index and store differ, and
        the next packet would have the number of this one: verdicts could name a wrong original.
        """
        if self._is_interrupted:
            raise FirstseenError(
                "an earlier call was interrupted before it had stored its texts: make a new "
                "Deduplicator; with a state it continues after the last stored text"
            )
        chain = Chain(_STREAM, "", 0)
        last = self._arrivals + arrivals - 1
        sender = Sender(_APPLICATION, self._packets)
        packet = Packet(chain, sender, self._arrivals - 1, last, rows.columns())
        self._is_interrupted = True
        decision = self._decider.decide(self._packets, packet)
        self._packets += 1
        self._arrivals += arrivals
        clock = self._decider.clock_before(self._packets)
        progress = Progress(chain, self._arrivals, self._packets, NO_CONTROL, clock)
        expired = 0 if clock is None else sequence_number(clock.horizon, 0)
        self._store.commit([decision.new], StoredProgress(progress), decision.removed, expired)
        self._is_interrupted = False
        return [
            verdict_of(packet.columns, row, decision.matches.get(row)) for row in range(len(packet))
        ]


def _checked_id(name: str, value: object) -> str:
    try:
        return checked_id(checked_string(name, value), name)
    except UnreadableError as error:
        raise UsageError(error.detail) from None


def _milliseconds(name: str, moment: object) -> int:
    wanted = "give a datetime with a time zone, or milliseconds since 1970 as an int"
    if isinstance(moment, bool) or not isinstance(moment, datetime | int):
        raise UsageError(f"{name} is {described(moment)}: {wanted}")
    try:
        return parse_timestamp(moment)
    except TimestampError as error:
        what = str(error).partition(":")[0]
        raise UsageError(f"{name} is {described(moment)}, {what}: {wanted}") from None
