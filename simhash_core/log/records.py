"""What stands in the log and on the topic of reports.

The log holds packets (``simhash_core.log.packets``), queries, and control records. Control records
form one chain: each names the one before it, and one that names another is heeded by nobody. A
verdict counts when it is read in a control record that is heeded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from simhash_core.documents import SourcePosition
from simhash_core.log.packets import Chain, DocumentColumns, Packet

NO_CONTROL: Final = -1
"""The offset of the control record before the first."""


class Match(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The nearest unique document that a document of a packet was found near to.

    ``row``: the document's index in the packet. ``distance``: bits. ``sequence``: the sequence
    number of the original, and what a duplicate's record says of it. ``block``: the first that they
    share, None for undecidable texts. ``exact``: equal content. ``similarity``: of the sketches,
    None for equal content and where the index confirms nothing.
    """

    row: int
    distance: int
    sequence: int
    original_id: str
    source: SourcePosition
    event_time_ms: int
    block: int | None
    exact: bool
    similarity: float | None

    def is_nearer(self, other: Match | None) -> bool:
        """Return whether this is the one to name: nearer, or as near and earlier in the log."""
        return other is None or (self.distance, self.sequence) < (other.distance, other.sequence)


class Neighbour(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A document of the index beside one that is asked about, near or not.

    ``similarity``: of the sketches, None where the index confirms nothing and for equal content.
    """

    match: Match
    near: bool


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """What an index, or a part of it, says of a document that is asked about.

    ``neighbours``: the nearest documents that share a block, nearest first. ``candidates``: how
    many share one. ``fullest_bucket``: the documents of its fullest bucket.
    """

    match: Match | None
    neighbours: list[Neighbour]
    candidates: int
    fullest_bucket: int


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A question about one document: looked up and decided as if it came here, and not kept.

    ``columns``: that document. ``limit``: of neighbours in the answer.
    """

    identifier: str
    limit: int
    columns: DocumentColumns


class Decision(msgspec.Struct, frozen=True, array_like=True):
    """What was decided of the packet or query at one offset of the log.

    ``matches``: of the duplicates in a packet, by row; all others in it are unique. None: the
    packet does not continue its chain, and is skipped. ``answer``: to a query.
    """

    offset: int
    matches: list[Match] | None
    answer: Answer | None = None


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
    of each document that is near any.
    """

    offset: int
    control: int
    matches: list[Match]
    answer: Answer | None = None


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
    itself at or after ``position`` never.
    """

    chain: Chain
    next: int
    position: int
    control: int

    @property
    def needed(self) -> int:
        """The lowest offset of the log that is read after a restart."""
        return self.position if self.control == NO_CONTROL else min(self.position, self.control)
