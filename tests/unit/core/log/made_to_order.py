"""Documents, packets and logs for tests: fingerprints have 64 bits in 4 blocks of 16."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from simhash_core.document_columns import BytesColumn, DocumentColumns
from simhash_core.documents import SourcePosition, masked, scoped_digest
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

SCHEME = BlockScheme(64, 4, 3)
NEARNESS = Nearness(SCHEME, None)
CHAIN = Chain("raw", "", 0)
FIRST_SENDER = Sender("worker", 0)
A = bytes.fromhex("00112233445566ff")
T = TypeVar("T")


class Made(NamedTuple):
    """A document. Without a fingerprint it is undecidable; without content, it equals no other.

    The defaults of ``name`` and ``time_ms`` are made from its raw offset.
    """

    fingerprint: bytes
    content: bytes = b""
    sketch: bytes = b""
    name: bytes = b""
    time_ms: int | None = None
    scope: str = ""
    is_delete: bool = False


def flipped(fingerprint: bytes, *bits: int) -> bytes:
    """Flip bits; the first one has the number 0."""
    number = int.from_bytes(fingerprint)
    for bit in bits:
        number ^= 1 << len(fingerprint) * 8 - 1 - bit
    return number.to_bytes(len(fingerprint))


def columns_of(documents: Sequence[Made], first: int = 0, words: int = 1) -> DocumentColumns:
    """Return documents as columns, at the raw offsets from ``first`` on."""
    rows = list(enumerate(documents, first))
    prints = (masked(each.fingerprint, each.scope) or bytes(words * 8) for each in documents)
    digests = (
        scoped_digest((each.content or b"own %d" % at).ljust(16, b"."), each.scope)
        for at, each in rows
    )
    operations = np.array([each.is_delete for each in documents], dtype=np.uint8)
    scopes = BytesColumn.of([each.scope.encode() for each in documents])
    return DocumentColumns(
        np.array([at for at, _ in rows], dtype=np.int64),
        np.array([1_000 + at if e.time_ms is None else e.time_ms for at, e in rows], np.int64),
        BytesColumn.of([each.name or b"document %d" % at for at, each in rows]),
        np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(-1, 16),
        np.frombuffer(b"".join(prints), dtype=np.uint64).reshape(-1, words),
        np.array([0 if each.fingerprint else 2 for each in documents], dtype=np.uint8),
        BytesColumn.of([each.sketch for each in documents]),
        operations if operations.any() else None,
        scopes if any(each.scope for each in documents) else None,
    )


FAR = [Made(bytes([n * 17] * 8)) for n in range(16)]
"""Documents of which no two are near."""


def present(value: T | None) -> T:
    assert value is not None
    return value


def chain(partition: int) -> Chain:
    return CHAIN._replace(partition=partition)


def packet(
    documents: Sequence[Made],
    previous: int = -1,
    partition: int = 0,
    sender: Sender = FIRST_SENDER,
    words: int = 1,
) -> Packet:
    columns = columns_of(documents, previous + 1, words)
    return Packet(chain(partition), sender, previous, previous + len(documents), columns)


def packet_of(documents: Sequence[Made], first: int = 0, words: int = 1) -> Packet:
    return packet(documents, first - 1, words=words)


def bundle(*packets: Packet) -> Bundle:
    return Bundle.of(packets)


def bundle_of(
    documents: Sequence[Made], previous: int = -1, partition: int = 0, sender: Sender = FIRST_SENDER
) -> Bundle:
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
    """Return a worker with empty shards, whose session has begun."""
    worker: Participant[str] = Participant("worker", nearness)
    for partition in partitions:
        progress = Progress(chain(partition), 0, position, NO_CONTROL)
        worker.add_shard(progress, MemoryEntries())
    worker.begin(end)
    return worker


def read(worker: Participant[str], *records: LogRecord) -> None:
    for record in records:
        worker.read(worker.replica.position, record, 0)


def append(worker: Participant[str], documents: int = 100) -> Control:
    """Append and read the next control record of a leader."""
    made = present(worker.control(documents))
    offset = worker.replica.position
    read(worker, made)
    worker.control_appended(offset, made.leader)
    return made


def replica_of(records: Sequence[LogRecord]) -> tuple[Replica, list[AcceptedControl | None]]:
    replica = Replica(0, NO_CONTROL)
    return replica, [replica.read(offset, record) for offset, record in enumerate(records)]


def decided(
    offset: int, item: Packet, matches: Sequence[Match] = (), removals: Sequence[Removal] = ()
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
    """Return the report on one bundle; ``at`` is the last applied control record."""
    made = [Found(offset, [*matches], None, [*held])] if matches or held else []
    return Report("w", [*shards], at, offset, offset + 1, made, dict.fromkeys(shards, 0))


def batch(documents: Sequence[Made | None], first: int = 0) -> RawBatch[str]:
    """Return raw records named by their offsets; None is no document."""
    count = len(documents)
    columns = columns_of([each or FAR[0] for each in documents], first)
    rows = [row for row, each in enumerate(documents) if each is not None]
    offsets = list(range(first, first + count))
    names = [f"record {offset}" for offset in offsets]
    kept = columns.take(columns.offsets[rows].astype(int) - first)
    return RawBatch(names, offsets, kept, first + count - 1, 100)
