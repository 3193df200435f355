"""Measures what many workers and raw partitions cost the leader, and every other worker.

Two workers are real from raw documents to verdicts: codec, participant and decider. For the others,
only the bytes of bundles and reports are made. All send and report at the pace of
``streams.worker.order``; they read bundles when they report, as a worker does, and their clocks
agree.
One document in ten repeats an entry of some worker, and one in ten a recent document. Fingerprints,
Kafka, RocksDB and outputs are left out. Times are CPU µs of a worker per document of the group.

    python -m benchmarks.wide_group [--group 50x1000x10000 …] [--json -]
"""

from __future__ import annotations

import gc
import statistics
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from benchmarks.command import (
    MeasurementError,
    add_number,
    errors_reported,
    new_parser,
    positive,
)
from benchmarks.measures import Stopwatch
from benchmarks.random_documents import CHAIN, random_columns
from benchmarks.report import Figures, publish
from simhash_core.document_columns import BytesColumn, DocumentColumns
from simhash_core.documents import SourcePosition
from simhash_core.errors import FirstseenError
from simhash_core.index.look_up import Nearness
from simhash_core.index.prints import prints_of
from simhash_core.log.local_decider import MemoryEntries
from simhash_core.log.participant import BundleLimit, Participant
from simhash_core.log.records import (
    NO_CONTROL,
    NO_OFFSET,
    Bundle,
    Chain,
    Found,
    Packet,
    Progress,
    Report,
    Sender,
    sequence_number,
    sequence_numbers,
)
from simhash_core.log.shard_stream import NewEntries, RawBatch
from simhash_core.text.profiles import profile_named
from simhash_core.verdicts import Match
from streams.worker.log_codec import LogCodec
from streams.worker.order import records_per_second, report_seconds

PROFILE: Final = "wide"
SLOT_SECONDS: Final = 0.005
"""A worker handles records that come in this time together, as those of one fetch."""
LIMIT: Final = BundleLimit(500, 256 * 1024)
TOGETHER: Final = LIMIT.documents
"""The number of documents in a report and in a control record."""
REPEATS: Final = 0.1
"""The share of documents that repeat an entry; as many repeat a recent document."""

MEMBERS: Final = (0, 1)  # the real workers; the first one leads
_IDENTITY: Final = "firstseen-index/1 benchmark"
_BEGIN: Final = 1 << 24  # first offset of the log; older entries have lower offsets
_NEW: Final = 1 << 48  # the numbers of new documents
_OLD_PACKET: Final = 1_000
_NOW_MS: Final = 1_800_000_000_000
_WARM_SECONDS: Final = 2.0
_MEASURED_SECONDS: Final = 2.0
_RECENT: Final = 2_000
_GROUPS: Final = ("50x1000x10000", "10x64x2000")
_SEED: Final = 20_261_123


class Group(NamedTuple):
    workers: int
    partitions: int
    documents: int  # per second

    @classmethod
    def named(cls, text: str) -> Group:
        workers, partitions, documents = map(positive, text.split("x"))
        return cls(workers, partitions, documents)

    @property
    def name(self) -> str:
        return f"{self.workers}x{self.partitions}"

    def shards(self, worker: int) -> list[int]:
        return list(range(worker, self.partitions, self.workers))


def _chain(partition: int) -> Chain:
    return CHAIN._replace(partition=partition)


def _name(worker: int) -> str:
    return f"firstseen.host-{worker}.0a1b2c3d"


class Member:
    def __init__(self, group: Group, number: int, entries: int) -> None:
        self.number = number
        self.spent = Stopwatch(time.thread_time)
        self.old: list[DocumentColumns] = []
        profile = profile_named(PROFILE)
        self._codec = LogCodec(_IDENTITY, profile.scheme())
        self._participant: Participant[None] = Participant(_name(number), Nearness.of(profile))
        self._stores: dict[int, MemoryEntries] = {}
        shards = group.shards(number)
        for shard in shards:
            self._add_shard(shard, -(-entries // len(shards)))
        self._participant.begin(_BEGIN)

    def _add_shard(self, partition: int, entries: int) -> None:
        store = self._stores[partition] = MemoryEntries()
        committed = []
        for first in range(0, entries, _OLD_PACKET):
            columns = random_columns(PROFILE, partition << 32 | first, _OLD_PACKET)
            self.old.append(columns)
            rows = np.arange(_OLD_PACKET)
            offset = partition << 10 | first // _OLD_PACKET
            packet = Packet(_chain(partition), Sender("", 0), NO_OFFSET, first + 1, columns)
            store.add(NewEntries(offset, packet, rows))
            prints = prints_of(self._participant.index.scheme, columns, rows)
            committed.append((sequence_numbers(sequence_number(offset, 0), rows), prints))
        progress = Progress(_chain(partition), 0, _BEGIN, NO_CONTROL)
        self._participant.add_shard(progress, store, committed)

    def send(self, packets: Sequence[Packet]) -> bytes | None:
        batches: list[RawBatch[None]] = [
            RawBatch([None] * len(each), each.columns.offsets.tolist(), each.columns, each.last)
            for each in packets
        ]
        with self.spent:
            for packet, batch in zip(packets, batches, strict=True):
                self._participant.shards[packet.chain.partition].stream.add(batch)
            bundle = self._participant.bundle(LIMIT)
            return None if bundle is None else self._codec.encode(bundle)

    def take(self, log: Sequence[bytes]) -> None:
        """Find the sender of each new record, as a worker does to see its own bundles."""
        with self.spent:
            for record in log:
                self._codec.sender_of(record)

    def read(self, log: Sequence[bytes], first: int) -> None:
        with self.spent:
            for offset, record in enumerate(self._codec.decode_many(log, [""] * len(log)), first):
                if isinstance(record, FirstseenError):
                    raise record
                self._participant.read(offset, record, _NOW_MS)

    def report(self, *_: object) -> list[bytes]:
        """Report on everything that was read; the leader takes its own reports directly."""
        values = []
        with self.spent:
            while (report := self._participant.report(TOGETHER)) is not None:
                if self._participant.decider is not None:
                    self._participant.take_report(report)
                else:
                    values.append(self._codec.encode_report(report))
        return values

    def take_reports(self, reports: Sequence[bytes]) -> None:
        with self.spent:
            for value in reports:
                self._participant.take_report(self._codec.decode_report(value, ""))

    def control(self, offset: int) -> bytes | None:
        """Return a control record, which is appended at ``offset``."""
        with self.spent:
            control = self._participant.control(TOGETHER)
            if control is None:
                return None
            decider = self._participant.decider
            assert decider is not None
            self._participant.control_appended(offset, decider.term)
            return self._codec.encode(control)

    def commit(self) -> int:
        """Output the decided documents; return their number."""
        documents = 0
        with self.spent:
            for ready in self._participant.ready(TOGETHER):
                documents += len(ready.ready.outputs)
                for entries in ready.ready.entries:
                    self._stores[ready.partition].add(entries)
                self._participant.committed(ready)
        return documents


class Stream:
    def __init__(self, group: Group, members: Sequence[Member]) -> None:
        self._random = np.random.default_rng(_SEED)
        self._heads = dict.fromkeys(range(group.partitions), NO_OFFSET)
        self._old = [columns for member in members for columns in member.old]
        self._workers = group.workers
        self._recent: deque[DocumentColumns] = deque(maxlen=_RECENT)
        self._documents = 0
        self._numbers = 0

    def packets(self, worker: int, shards: Sequence[int], documents: int) -> list[Packet]:
        counts = np.bincount(self._random.integers(0, len(shards), documents))
        return [
            self._packet(worker, shard, int(count))
            for shard, count in zip(shards, counts, strict=False)
            if count
        ]

    def _packet(self, worker: int, partition: int, count: int) -> Packet:
        previous = self._heads[partition]
        first, last = previous + 1, previous + count
        self._heads[partition] = last
        self._documents += count
        columns = random_columns(PROFILE, _NEW | self._documents, count)
        draws = self._random.random(count)
        for row in np.flatnonzero(draws < 2 * REPEATS).tolist():
            columns = self._repeat(columns, row, recent=bool(draws[row] < REPEATS))
        columns = replace(columns, offsets=np.arange(first, last + 1))
        self._recent.append(columns)
        self._numbers += 1
        return Packet(
            _chain(partition), Sender(_name(worker), self._numbers), previous, last, columns
        )

    def _repeat(self, columns: DocumentColumns, row: int, *, recent: bool) -> DocumentColumns:
        """Return columns in which ``row`` repeats a document that a real worker has, if any."""
        source = self._recent if recent else self._old
        if not source or (not recent and self._random.random() > len(MEMBERS) / self._workers):
            return columns  # simulated workers report their repeats themselves
        other = source[int(self._random.integers(0, len(source)))]
        at = int(self._random.integers(0, len(other)))
        fingerprints = columns.fingerprints.copy()
        fingerprints[row] = other.fingerprints[at]
        sketches = [*columns.sketches]
        sketches[row] = other.sketches[at]
        return replace(columns, fingerprints=fingerprints, sketches=BytesColumn.of(sketches))


class Simulated:
    def __init__(self, group: Group, number: int, codec: LogCodec) -> None:
        self.number = number
        self._shards = group.shards(number)
        self._codec = codec
        self._reported = _BEGIN
        self._share = REPEATS / group.workers
        self._random = np.random.default_rng([_SEED, number])

    def send(self, packets: Sequence[Packet]) -> bytes | None:
        return self._codec.encode(Bundle.of(packets)) if packets else None

    def report(self, end: int, control: int, bundles: Sequence[tuple[int, int]]) -> list[bytes]:
        """Report on ``bundles``, offsets and documents, up to offset ``end``."""
        found = []
        for offset, documents in bundles:
            if offset < self._reported:
                continue
            rows = np.flatnonzero(self._random.random(documents) < self._share).tolist()
            if rows:
                found.append(Found(offset, [self._match(row) for row in rows]))
        first, self._reported = self._reported, end
        positions = dict.fromkeys(self._shards, max(_BEGIN, end - 1_000))
        report = Report(_name(self.number), self._shards, control, first, end, found, positions)
        return [self._codec.encode_report(report)]

    def _match(self, row: int) -> Match:
        source = SourcePosition("raw-documents", self._shards[0], row)
        at = int(self._random.integers(0, _BEGIN))
        number, name = sequence_number(at, row), f"document-{at:011}"
        return Match(row, 20, number, name, source, _NOW_MS, 3, False, 0.9)


class Run:
    def __init__(self, group: Group, entries: int) -> None:
        self._group = group
        codec = LogCodec(_IDENTITY)
        self.members = [Member(group, number, entries) for number in MEMBERS]
        numbers = range(len(MEMBERS), group.workers)
        simulated = [Simulated(group, number, codec) for number in numbers]
        self._workers: list[Member | Simulated] = [*self.members, *simulated]
        self._stream = Stream(group, self.members)
        self._log: list[bytes] = []
        self._read = 0
        self._control = NO_CONTROL
        self._bundles: deque[tuple[int, int]] = deque(maxlen=2_000)
        self._pace = records_per_second(group.workers, group.documents)
        turn = group.workers * (1 / self._pace - 1 / group.documents)
        self._slots_of_report = round(report_seconds(group.workers, turn) / SLOT_SECONDS)
        self._slots = self._taken = 0
        self._turn = self._due = 0.0
        self.documents = self.output = 0
        self._append_control()
        self._read_all()

    def _append_control(self) -> None:
        offset = _BEGIN + len(self._log)
        value = self.members[0].control(offset)
        if value is not None:
            self._control = offset
            self._log.append(value)

    def _read_all(self) -> None:
        for member in self.members:
            member.read(self._log[self._read :], _BEGIN + self._read)
        self._read = len(self._log)

    def seconds(self, seconds: float) -> None:
        for _ in range(round(seconds / SLOT_SECONDS)):
            self._slot()

    def _slot(self) -> None:
        """Let the workers send whose turn it is, and let all report if the time has come."""
        workers = self._group.workers
        began, self._turn = self._turn, self._turn + self._pace * SLOT_SECONDS
        for at in range(round(began), round(self._turn)):
            self._send(self._workers[at % workers])
        for member in self.members:
            member.take(self._log[self._taken :])
        self._taken = len(self._log)
        self._slots += 1
        if self._slots % self._slots_of_report == 0:
            self._report()

    def _report(self) -> None:
        self._read_all()
        reports = []
        for worker in self._workers:
            reports += worker.report(_BEGIN + self._read, self._control, self._bundles)
        self.members[0].take_reports(reports)
        self._append_control()
        self._read_all()
        for member in self.members:
            self.output += member.commit()

    def _send(self, worker: Member | Simulated) -> None:
        self._due += self._group.documents / self._pace
        count = int(self._due)
        self._due -= count
        packets = self._stream.packets(worker.number, self._group.shards(worker.number), count)
        value = worker.send(packets)
        if value is not None:
            self.documents += count
            self._bundles.append((_BEGIN + len(self._log), count))
            self._log.append(value)


def measured(group: Group, entries: int) -> Figures:
    run = Run(group, entries)
    run.seconds(_WARM_SECONDS)
    before = run.documents, [member.spent.seconds for member in run.members]
    gc.collect()
    gc.freeze()
    run.seconds(_MEASURED_SECONDS)
    documents = run.documents - before[0]
    leader, other = (
        (member.spent.seconds - began) / documents * 1e6
        for member, began in zip(run.members, before[1], strict=True)
    )
    if not run.output:
        raise MeasurementError("nothing was output")
    return {"leader_us": round(leader, 1), "other_us": round(other, 1)}


def main() -> None:
    parser = new_parser("benchmarks.wide_group", __doc__)
    what = f"workers x partitions x documents per second, such as {' and '.join(_GROUPS)}"
    parser.add_argument("--group", type=Group.named, action="append", help=what)
    add_number(parser, "--entries", 100_000, "entries of a worker")
    add_number(parser, "--rounds", 3, "rounds of each variant")
    chosen = parser.parse_args()
    with errors_reported():
        figures = {}
        for group in chosen.group or map(Group.named, _GROUPS):
            rounds = [measured(group, chosen.entries) for _ in range(chosen.rounds)]
            figures[group.name] = {
                name: statistics.median(each[name] for each in rounds) for name in rounds[0]
            }
    publish(figures, chosen.json)


if __name__ == "__main__":
    main()
