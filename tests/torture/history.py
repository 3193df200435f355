"""What a log has said, as an outsider reads it who keeps everything.

It takes no part in the protocol and shares no code with it: which packets count and which control
records are accepted is found out here once more, by the two rules of the log. A packet counts if it
names as the last raw offset of its partition the last one that is in the log; a control record is
accepted if it names the one before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.document_columns import DocumentColumns
from simhash_core.documents import SourcePosition
from simhash_core.log.records import Chain, Control, LogRecord, Packet, Removal
from simhash_core.verdicts import Match

NOTHING = -1
INDEX_BITS = 16
IS_DELETE = 1


class LoggedRow(NamedTuple):
    """A document or a delete as it stands in a packet that counts.

    ``document_id``: of the document, or of those that the delete takes out. ``watermark``: the
    highest time of all documents up to this packet and with it, each held by when the log took it.
    """

    source: SourcePosition
    document_id: str
    is_delete: bool
    watermark: int


@dataclass(eq=False)
class History:
    """The documents of all packets that count, in the order of the log, and what was decided.

    ``rows``: the same, deletes included. ``verdicts``: the original of each document that was
    decided, None for a unique. ``removed``: what a row takes out. ``prints``: fingerprints as they
    stand in the log, empty where undecidable. ``wrong``: what no log may say.
    """

    documents: list[SourcePosition] = field(default_factory=list)
    rows: list[LoggedRow] = field(default_factory=list)
    removed: dict[SourcePosition, set[SourcePosition]] = field(default_factory=dict)
    verdicts: dict[SourcePosition, SourcePosition | None] = field(default_factory=dict)
    prints: dict[SourcePosition, bytes] = field(default_factory=dict)
    packets: int = 0
    packets_skipped: int = 0
    queries: int = 0
    reigns: int = 0
    controls_refused: int = 0
    undecided: dict[int, Packet] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    _chains: dict[int, tuple[Chain, NDArray[np.int64]]] = field(default_factory=dict)
    _void: set[int] = field(default_factory=set)
    _heads: dict[Chain, int] = field(default_factory=dict)
    _control: int = NOTHING
    _watermark: int = NOTHING

    def take(self, offset: int, record: LogRecord, appended_ms: int = 1 << 62) -> None:
        """Take in the record at an offset of the log, which the broker took at ``appended_ms``."""
        match record:
            case Packet():
                self._pass(record, appended_ms)
                self._packet(offset, record)
            case Control():
                self._take_control(offset, record)
            case _:
                self.queries += 1
                self._void.add(offset)

    def _pass(self, packet: Packet, appended_ms: int) -> None:
        """Move the watermark, by packets that do not count as well."""
        columns = packet.columns
        for row in range(len(packet)):
            if not _is_delete(columns, row):
                time_ms = min(int(columns.times_ms[row]), appended_ms)
                self._watermark = max(self._watermark, time_ms)

    def _packet(self, offset: int, packet: Packet) -> None:
        head = self._heads.get(packet.chain, NOTHING)
        offsets = packet.columns.offsets
        if packet.previous != head or packet.last <= head:
            self.packets_skipped += 1
            self._void.add(offset)
            return
        covered = (offsets > head) & (offsets <= packet.last)
        if not (covered.all() and (np.diff(offsets) > 0).all()):
            self.wrong.append(f"the packet at {offset} has offsets that it does not cover")
        self.packets += 1
        self.undecided[offset] = packet
        self._heads[packet.chain] = packet.last
        self._chains[offset] = packet.chain, offsets
        for row in range(len(packet)):
            source = packet.source(row)
            is_delete = _is_delete(packet.columns, row)
            document_id = packet.columns.ids[row].decode()
            self.rows.append(LoggedRow(source, document_id, is_delete, self._watermark))
            if is_delete:
                continue
            self.documents.append(source)
            words = packet.columns.fingerprints[row]
            self.prints[source] = b"" if packet.columns.undecidable[row] else words.tobytes()

    def _take_control(self, offset: int, control: Control) -> None:
        if control.previous != self._control:
            self.controls_refused += 1
            return
        self._control = offset
        self.reigns += control.leads
        for decision in control.decisions:
            if decision.offset in self._void:
                if decision.matches is not None and not decision.answer:
                    self.wrong.append(f"{offset} decides {decision.offset}, which does not count")
                continue
            packet = self.undecided.pop(decision.offset, None)
            if packet is None:
                self.wrong.append(f"{offset} decides {decision.offset}, not there or decided")
            elif decision.matches is None:
                self.wrong.append(f"{offset} skips {decision.offset}, which counts")
            else:
                self._decided(decision.offset, packet, decision.matches)
                self._removed(packet, decision.removals)
        passed = [each for each in self.undecided if each < control.next]
        if passed:
            self.wrong.append(f"{offset} passes over {passed}, up to {control.next}")

    def _decided(self, offset: int, packet: Packet, matches: list[Match]) -> None:
        originals = {match.row: match for match in matches}
        for row in range(len(packet)):
            match = originals.get(row)
            source = packet.source(row)
            if _is_delete(packet.columns, row):
                continue
            self.verdicts[source] = None if match is None else match.source
            if match is not None and self._at(match.sequence) != match.source:
                self.wrong.append(
                    f"{source} at {offset} names {match.sequence}, not {match.source}"
                )

    def _removed(self, packet: Packet, removals: list[Removal]) -> None:
        for removal in removals:
            found = self._at(removal.sequence)
            if found is None or found.partition != removal.partition:
                self.wrong.append(f"{removal} takes out what is not there")
                continue
            self.removed.setdefault(packet.source(removal.row), set()).add(found)

    def _at(self, sequence: int) -> SourcePosition | None:
        """The document with a sequence number."""
        chain, offsets = self._chains.get(sequence >> INDEX_BITS, (None, None))
        row = sequence & (1 << INDEX_BITS) - 1
        if chain is None or offsets is None or row >= len(offsets):
            return None
        return SourcePosition(chain.topic, chain.partition, int(offsets[row]))


def _is_delete(columns: DocumentColumns, row: int) -> bool:
    return columns.operations is not None and int(columns.operations[row]) == IS_DELETE
