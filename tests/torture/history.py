"""The whole content of a log, read without the code of the protocol.

A packet (a segment of a bundle) counts if it names the last raw offset of its partition in the log.
A control record is accepted if it names the control record before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from simhash_core.document_columns import DocumentColumns
from simhash_core.documents import SourcePosition
from simhash_core.log.records import Bundle, BundleSegment, Chain, Control, Decision, LogRecord

NOTHING = -1
INDEX_BITS = 16
IS_DELETE = 1


class LoggedRow(NamedTuple):
    """A document or a delete in a packet that counts."""

    source: SourcePosition
    document_id: str  # of the document, or of the documents that the delete removes
    is_delete: bool
    before: int  # the watermark before its bundle: the highest time, at most that of its append
    after: int  # the watermark after its bundle


class Undecided(NamedTuple):
    """A row of a bundle that is not decided."""

    source: SourcePosition
    is_delete: bool


@dataclass(eq=False)
class History:
    """The documents of all packets that count, in the order of the log, and the decisions."""

    documents: list[SourcePosition] = field(default_factory=list)
    rows: list[LoggedRow] = field(default_factory=list)  # the same documents, and deletes
    removed: dict[SourcePosition, set[SourcePosition]] = field(default_factory=dict)
    verdicts: dict[SourcePosition, SourcePosition | None] = field(default_factory=dict)
    prints: dict[SourcePosition, bytes] = field(default_factory=dict)  # b"": undecidable
    packets: int = 0
    packets_skipped: int = 0
    queries: int = 0
    reigns: int = 0
    controls_refused: int = 0
    undecided: dict[int, list[Undecided | None]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)  # violations of the protocol
    _sources: dict[int, list[SourcePosition | None]] = field(default_factory=dict)
    _skipped: dict[int, set[int]] = field(default_factory=dict)
    _queries: set[int] = field(default_factory=set)
    _heads: dict[Chain, int] = field(default_factory=dict)
    _control: int = NOTHING
    _before: int = NOTHING
    _after: int = NOTHING

    def take(self, offset: int, record: LogRecord, appended_ms: int = 1 << 62) -> None:
        """Add the log record at an offset, which the broker appended at ``appended_ms``."""
        match record:
            case Bundle():
                self._pass(record, appended_ms)
                self._take_bundle(offset, record)
            case Control():
                self._take_control(offset, record)
            case _:
                self.queries += 1
                self._queries.add(offset)

    def _pass(self, bundle: Bundle, appended_ms: int) -> None:
        """Advance the watermark, also by packets that do not count."""
        columns = bundle.columns
        self._before = self._after
        for row in range(len(bundle)):
            if not _is_delete(columns, row):
                time_ms = min(int(columns.times_ms[row]), appended_ms)
                self._after = max(self._after, time_ms)

    def _take_bundle(self, offset: int, bundle: Bundle) -> None:
        partitions = [segment.chain.partition for segment in bundle.segments]
        if len(partitions) != len(set(partitions)):
            self.wrong.append(f"the bundle at {offset} has two packets of one partition")
        rows: list[Undecided | None] = [None] * len(bundle)
        skipped = set()
        for at, segment in enumerate(bundle.segments):
            head = self._heads.get(segment.chain, NOTHING)
            if segment.previous != head or segment.last <= head:
                self.packets_skipped += 1
                skipped.add(at)
            else:
                self._take_packet(offset, bundle.columns, segment, rows)
        self.undecided[offset] = rows
        self._skipped[offset] = skipped
        self._sources[offset] = [None if row is None else row.source for row in rows]

    def _take_packet(
        self,
        offset: int,
        columns: DocumentColumns,
        segment: BundleSegment,
        rows: list[Undecided | None],
    ) -> None:
        offsets = columns.offsets[segment.first : segment.end]
        covered = (offsets > segment.previous) & (offsets <= segment.last)
        if not (covered.all() and (np.diff(offsets) > 0).all()):
            self.wrong.append(f"a packet at {offset} has offsets that it does not cover")
        self.packets += 1
        chain = segment.chain
        self._heads[chain] = segment.last
        for row, raw_offset in enumerate(offsets.tolist(), segment.first):
            source = SourcePosition(chain.topic, chain.partition, raw_offset)
            is_delete = _is_delete(columns, row)
            rows[row] = Undecided(source, is_delete)
            document_id = columns.ids[row].decode()
            logged = LoggedRow(source, document_id, is_delete, self._before, self._after)
            self.rows.append(logged)
            if is_delete:
                continue
            self.documents.append(source)
            words = columns.fingerprints[row]
            self.prints[source] = b"" if columns.undecidable[row] else words.tobytes()

    def _take_control(self, offset: int, control: Control) -> None:
        if control.previous != self._control:
            self.controls_refused += 1
            return
        self._control = offset
        self.reigns += control.leads
        for decision in control.decisions:
            if decision.offset in self._queries:
                continue
            rows = self.undecided.pop(decision.offset, None)
            if rows is None:
                self.wrong.append(f"{offset} decides {decision.offset}, not there or decided")
            elif {*decision.skipped} != self._skipped[decision.offset]:
                self.wrong.append(f"{offset} skips {decision.skipped} of {decision.offset}")
            else:
                self._decided(decision, rows)
        passed = [each for each in self.undecided if each < control.next]
        if passed:
            self.wrong.append(f"{offset} passes over {passed}, up to {control.next}")

    def _decided(self, decision: Decision, rows: list[Undecided | None]) -> None:
        """Note the decisions for rows; None stands for rows of packets that do not count."""
        where = decision.offset
        originals = {match.row: match for match in decision.matches}
        self.verdicts |= {row.source: None for row in rows if row and not row.is_delete}
        for at, match in originals.items():
            row = rows[at] if at < len(rows) else None
            if row is None or row.is_delete:
                self.wrong.append(f"row {at} at {where} is no document, and has a match")
                continue
            self.verdicts[row.source] = match.source
            if self._at(match.sequence) != match.source:
                self.wrong.append(
                    f"{row.source} at {where} names {match.sequence}, not {match.source}"
                )
        for removal in decision.removals:
            row = rows[removal.row] if removal.row < len(rows) else None
            found = self._at(removal.sequence)
            if row is None or found is None or found.partition != removal.partition:
                self.wrong.append(f"{removal} at {where} takes out what is not there")
            else:
                self.removed.setdefault(row.source, set()).add(found)

    def _at(self, sequence: int) -> SourcePosition | None:
        """Return the source of the document with a sequence number."""
        sources = self._sources.get(sequence >> INDEX_BITS, [])
        row = sequence & (1 << INDEX_BITS) - 1
        return sources[row] if row < len(sources) else None


def _is_delete(columns: DocumentColumns, row: int) -> bool:
    return columns.operations is not None and int(columns.operations[row]) == IS_DELETE
