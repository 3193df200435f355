"""What stands in the log and on the topic of reports.

The log holds packets (``simhash_core.log.packets``), queries, and control records. Control records
form one chain: each names the one before it, and one that names another is heeded by nobody. A
verdict counts when it is read in a control record that is heeded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from simhash_core.document_columns import DocumentColumns
from simhash_core.log.log_clock import LogClock
from simhash_core.log.packets import Chain, Packet
from simhash_core.matches import Answer, Match

NO_CONTROL: Final = -1
"""The offset of the control record before the first."""


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A question about one document: looked up and decided as if it came here, and not kept.

    ``columns``: that document. ``limit``: of neighbours in the answer.
    """

    identifier: str
    limit: int
    columns: DocumentColumns


class Removal(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """An entry that a row of a packet takes out of the index.

    A delete takes out the entries with its id and, where a document replaces those of its id, a
    document does. ``partition``: the shard that holds the entry. ``sequence``: the entry's number.
    """

    row: int
    partition: int
    sequence: int


class Decision(msgspec.Struct, frozen=True, array_like=True):
    """What was decided of the packet or query at one offset of the log.

    ``matches``: of the duplicates in a packet, by row; all other documents in it are unique. None:
    the packet does not continue its chain, and is skipped. ``answer``: to a query. ``removals``:
    the entries that it takes out, by row.
    """

    offset: int
    matches: list[Match] | None
    answer: Answer | None = None
    removals: list[Removal] = []


class Control(msgspec.Struct, frozen=True, array_like=True):
    """A control record.

    ``previous``: the offset of the control record before it. ``leader``: who appended it.
    ``leads``: it begins the reign of this leader and decides nothing; only reports made after it
    count. ``heads``: of all chains, after these decisions. ``next``: everything before this offset
    of the log is decided.
    """

    previous: int
    leader: str
    leads: bool
    decisions: list[Decision]
    heads: list[tuple[Chain, int]]
    next: int


LogRecord = Packet | Query | Control


class PacketReport(msgspec.Struct, frozen=True, array_like=True):
    """What the shards of a worker found for the packet or query at one offset of the log.

    ``control``: the last control record whose verdicts had been applied. ``matches``: the nearest
    of each document that is near any. ``held``: the entries of these shards that it takes out.
    """

    offset: int
    control: int
    matches: list[Match]
    answer: Answer | None = None
    held: list[Removal] = []


class Report(msgspec.Struct, frozen=True, array_like=True):
    """What a worker found. ``shards``: those that it looked in, all of them for each packet.

    ``positions``: the lowest offset of the log that each of these shards needs after a restart.
    """

    worker: str
    shards: list[int]
    packets: list[PacketReport]
    positions: dict[int, int]


class Progress(msgspec.Struct, frozen=True, array_like=True):
    """How far a shard has come, committed together with its outputs and entries.

    ``next``: the next raw offset to put out. ``position``: where to read on in the log, before
    anything that is not put out or not decided. ``control``: the control record in force there,
    itself at or after ``position`` never. ``clock``: the watermark of all that is before what is
    ``needed``; None where the index has no window, or nothing is before.
    """

    chain: Chain
    next: int
    position: int
    control: int
    clock: LogClock | None = None

    @property
    def needed(self) -> int:
        """The lowest offset of the log that is read after a restart."""
        return self.position if self.control == NO_CONTROL else min(self.position, self.control)
