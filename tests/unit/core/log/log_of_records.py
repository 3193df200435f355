"""A log that tests write by hand: records in a list, read by a replica in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from simhash_core.documents import SourcePosition
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.look_up import Nearness
from simhash_core.log.local_decider import MemoryEntries
from simhash_core.log.participant import Participant
from simhash_core.log.records import (
    NO_CONTROL,
    Bundle,
    Chain,
    ChainHeads,
    Control,
    Decision,
    Found,
    LogRecord,
    Packet,
    Progress,
    Removal,
    Report,
    Sender,
)
from simhash_core.log.replica import AcceptedControl, Replica
from simhash_core.log.shard_stream import DecidedPacket, RawBatch
from simhash_core.verdicts import Match
from tests.unit.core.log.made_to_order import Made, columns_of

NEARNESS = Nearness(BlockScheme(64, 4, 3), None)
FAR = [Made(bytes([n * 17] * 8)) for n in range(16)]
"""Documents of which no two are near."""
FIRST_SENDER = Sender("worker", 0)
T = TypeVar("T")


def present(value: T | None) -> T:
    """Return what must not be None."""
    assert value is not None
    return value


def chain(partition: int) -> Chain:
    return Chain("raw", "", partition)


def packet(
    documents: Sequence[Made], previous: int = -1, partition: int = 0, sender: Sender = FIRST_SENDER
) -> Packet:
    columns = columns_of(documents, previous + 1)
    return Packet(chain(partition), sender, previous, previous + len(documents), columns)


def bundle(*packets: Packet) -> Bundle:
    return Bundle.of(packets)


def bundle_of(
    documents: Sequence[Made], previous: int = -1, partition: int = 0, sender: Sender = FIRST_SENDER
) -> Bundle:
    """Return a bundle of one packet."""
    return bundle(packet(documents, previous, partition, sender))


def control(
    previous: int,
    decisions: Sequence[Decision] = (),
    *,
    leader: str = "leader.1",
    leads: bool = False,
    heads: Sequence[tuple[Chain, int]] = (),
    following: int = 0,
) -> Control:
    end = decisions[-1].offset + 1 if decisions else following
    return Control(previous, leader, leads, [*decisions], ChainHeads.of(heads), end)


BEGINS = control(NO_CONTROL, leads=True)


def worker_with(
    *partitions: int, end: int = 0, position: int = 0, nearness: Nearness = NEARNESS
) -> Participant[str]:
    """A worker with shards without documents, whose session has begun."""
    worker: Participant[str] = Participant("worker", nearness)
    for partition in partitions:
        progress = Progress(chain(partition), 0, position, NO_CONTROL)
        worker.add_shard(progress, MemoryEntries())
    worker.begin(end)
    return worker


def read(worker: Participant[str], *records: LogRecord) -> None:
    """Let a worker read on in the log."""
    for record in records:
        worker.read(worker.replica.position, record, 0)


def replica_of(records: Sequence[LogRecord]) -> tuple[Replica, list[AcceptedControl | None]]:
    """A replica that has read a whole log, and what each record brought."""
    replica = Replica(0, NO_CONTROL)
    return replica, [replica.read(offset, record) for offset, record in enumerate(records)]


def decided(
    offset: int,
    item: Packet,
    matches: Sequence[Match] = (),
    removals: Sequence[Removal] = (),
) -> DecidedPacket:
    return DecidedPacket.of(offset, item, Decision(offset, [*matches], None, [*removals]))


def found(row: int, distance: int, sequence: int, original: str = "elsewhere") -> Match:
    """Return the match of a row, with an entry of another shard."""
    source = SourcePosition("raw", 1, 2)
    return Match(row, distance, sequence, original, source, 0, 0, exact=False, similarity=None)


def report(
    shards: Sequence[int],
    offset: int,
    at: int,
    matches: Sequence[Match] = (),
    held: Sequence[Removal] = (),
) -> Report:
    """Return the report on one bundle; ``at`` is the control record that was applied."""
    made = [Found(offset, [*matches], None, [*held])] if matches or held else []
    return Report("w", [*shards], at, offset, offset + 1, made, dict.fromkeys(shards, 0))


def batch(documents: Sequence[Made | None], first: int = 0) -> RawBatch[str]:
    """Raw records named by their offsets; None is no document."""
    count = len(documents)
    columns = columns_of([each or FAR[0] for each in documents], first)
    rows = [row for row, each in enumerate(documents) if each is not None]
    offsets = list(range(first, first + count))
    names = [f"record {offset}" for offset in offsets]
    kept = columns.take(columns.offsets[rows].astype(int) - first)
    return RawBatch(names, offsets, kept, first + count - 1, 100)
