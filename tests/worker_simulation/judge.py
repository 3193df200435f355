"""The invariants of whole workers, checked only on the content of the brokers.

The log is checked record by record as in ``tests.simulation.judge``: one reader of the log computes
the right verdict of each document. A reader of committed records must find the same verdicts in the
output topics, once for each raw record and in raw order. The committed index must have exactly the
unique documents.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, cast

from simhash_core.documents import Entry, SourcePosition
from simhash_core.log.records import Bundle, Chain, LogRecord, Progress
from streams.documents.output_records import (
    DeadLetterOutput,
    DuplicateOutput,
    ReceivedOutput,
    TombstoneOutput,
    UniqueOutput,
    received_output,
)
from streams.settings.settings import Delivery, Settings
from streams.store.changelog_codec import LoggedProgress
from streams.store.recovery import load_batch
from streams.store.row_codec import StoreIdentity
from streams.store.shard_directory import open_shard
from streams.worker.log_codec import LogCodec, OtherIndexError, version_of
from tests.rigs.memory_rows import MemoryDisk
from tests.simulation.broker import RawPartition
from tests.simulation.documents import SimulatedDocument
from tests.simulation.judge import Judge, ViolationError
from tests.worker_simulation.cluster import Cluster
from tests.worker_simulation.documents import IDENTITY, RawDocument
from tests.worker_simulation.index_clients import last_progress, logged_batch, logged_progress
from tests.worker_simulation.partitions import Stored, compacted
from tests.worker_simulation.scenario import WorkerScenario

_TOMBSTONES_KEPT: Final = 0.5
_CHAINS: Final = 9  # more than a partition has


class RawChain(NamedTuple):
    """A raw partition of one topic, with all records that will be produced."""

    chain: Chain
    records: list[RawDocument]


class WorkerJudge:
    def __init__(self, scenario: WorkerScenario, settings: Settings, cluster: Cluster) -> None:
        self._scenario = scenario
        self._topics = settings.topics
        self._cluster = cluster
        self._identity = None if scenario.other_settings else IDENTITY
        self._unread: list[Stored] = []  # of the log, until the index has an identity
        self.log = Judge(scenario)
        self.chains: list[RawChain] = []
        self._lost: dict[tuple[int, int], list[RawDocument]] = defaultdict(list)
        self.late = 0  # documents that came later than the lateness, if no date is in the future
        self._watermark_ms = 0

    def lost(self, chain: Chain, lost: list[RawDocument], others: list[RawDocument]) -> None:
        """Note that brokers lost records, and that ``others`` get their offsets.

        What was read of the lost ones may be output.
        """
        for record in lost:
            self._lost[chain.partition, record.offset].append(record)
        self.log.produced([cast("RawPartition", RawChain(chain, others))])

    def produced(self, chains: Sequence[RawChain]) -> None:
        self.chains += chains
        self.log.produced(cast("Iterable[RawPartition]", chains))

    def appended(self, stored: Stored) -> None:
        self._unread.append(stored)
        self._read_log()

    def _read_log(self) -> None:
        """Read the log from the first progress on, which says whose index it is."""
        if self._identity is None:
            changelog = self._cluster.partition((self._topics.changelog, 0))
            first = next(iter(logged_progress(changelog.read_committed())), None)
            if first is None:
                return
            self._identity = first.identity
        codec = LogCodec(self._identity)
        unread, self._unread = self._unread, []
        for stored in unread:
            try:
                record: LogRecord = codec.decode(stored.value, f"log@{stored.offset}")
            except OtherIndexError:
                if not self._scenario.other_settings:
                    raise
            else:
                version = version_of(stored.value)
                if isinstance(record, Bundle):
                    self._note_late(record)
                self.log.appended(stored.offset, record, stored.timestamp_ms, version)

    def _note_late(self, bundle: Bundle) -> None:
        times_ms, window = bundle.columns.document_times_ms, self._scenario.window
        if window is not None and len(times_ms):
            self.late += int((times_ms < self._watermark_ms - window.lateness_ms).sum())
            self._watermark_ms = max(self._watermark_ms, int(times_ms.max()))

    # ---- outputs

    def is_put_out(self) -> bool:
        """Return whether the committed progress is after the last record of each partition.

        At least once, a late request may set an offset of the group back, so the changelog counts.
        """
        offsets = self._cluster.group.offsets
        exactly = self._scenario.delivery is Delivery.EXACTLY_ONCE
        for chain, records in self._current():
            if not records:
                continue
            committed = offsets.get(chain.partition)
            if exactly and (committed is None or committed.offset <= records[-1].offset):
                return False
            has_lost = any(partition == chain.partition for partition, _ in self._lost)
            if not exactly or has_lost:
                logged = self._progress(chain)
                if logged is None or logged.progress.next <= records[-1].offset:
                    return False
                raw = self._cluster.partition((self._topics.raw, chain.partition))
                last = raw.records[-1:]  # retention may have deleted all
                if has_lost and last and logged.leader_epoch != last[0].leader_epoch:
                    return False
        return not self._is_marker_missing()

    def _progress(self, chain: Chain) -> LoggedProgress | None:
        """Return the progress in the changelog: the furthest one, which readers use."""
        changelogs = self._cluster.topics[self._topics.changelog].partitions
        if chain.partition >= len(changelogs):
            return None
        logged = last_progress(changelogs[chain.partition].read_committed())
        is_of_topic = logged is not None and logged.progress.chain.is_of(chain.topic_id)
        return logged if is_of_topic else None

    def _current(self) -> list[RawChain]:
        topic_id = self._cluster.topics[self._topics.raw].id
        return [each for each in self.chains if each.chain.topic_id == topic_id]

    def _is_marker_missing(self) -> bool:
        return any(
            partition.stable_end != partition.end
            for topic in self._cluster.topics.values()
            for partition in topic.partitions
        )

    def waits_for(self) -> str:
        offsets = {p: each.offset for p, each in self._cluster.group.offsets.items()}
        ends = {c.partition: r[-1].offset + 1 for c, r in self._current() if r}
        undecided = [*self.log.undecided]
        return f"committed {offsets} of {ends}, undecided packets {undecided[:5]}"

    def at_the_end(self) -> None:
        self._read_log()
        outputs = self._outputs()
        repeats = self._scenario.delivery is Delivery.AT_LEAST_ONCE
        for chain, records in self.chains:
            for record in records:
                self._judge_record(chain, record, outputs, repeats=repeats)
        for place, lost in self._lost.items():
            self._judge_lost(place, lost, outputs[place], repeats=repeats)
        for place, received in outputs.items():
            if received and not (repeats and self._scenario.again):
                raise ViolationError(f"{place}: {received[:3]}, which is too much")
        uniques = self.log.one_reader.uniques  # everything is output
        self.log.check_entries(uniques, self._entries(lambda records: records))
        self.log.check_entries(uniques, self._entries(self._compacted))
        if not repeats:
            self._progress_rises()

    def _progress_rises(self) -> None:
        """Check that no committed progress of a shard is behind an earlier one.

        Only the position may go back: a new owner can open the shard while the marker of a
        transaction that moved only the position is late. Readers keep the further position
        (``goes_back``).
        """
        for number, partition in enumerate(self._cluster.topics[self._topics.changelog].partitions):
            last: Progress | None = None
            for each in (read.progress for read in logged_progress(partition.read_committed())):
                if last is not None and last.chain == each.chain and each.next < last.next:
                    raise ViolationError(
                        f"shard {number}: progress {each} is committed after {last}"
                    )
                last = each

    def _outputs(self) -> dict[tuple[int, int], list[ReceivedOutput]]:
        """Return the outputs by raw partition and offset; checks their order."""
        outputs: dict[tuple[int, int], list[ReceivedOutput]] = defaultdict(list)
        for name in (self._topics.unique, self._topics.duplicates, self._topics.dead_letters):
            for number, partition in enumerate(self._cluster.topics[name].partitions):
                last: dict[int, int] = {}
                for stored in partition.read_committed():
                    received = received_output(stored.value, stored.headers)
                    if received is None:
                        raise ViolationError(f"{name}/{number}@{stored.offset} is no output")
                    source = received.source
                    outputs[source.partition, source.offset].append(received)
                    before = last.get(source.partition, -1)
                    if source.offset < before and self._is_ordered:
                        raise ViolationError(
                            f"{name}/{number}: {source} is put out after offset {before}"
                        )
                    last[source.partition] = source.offset
        return outputs

    @property
    def _is_ordered(self) -> bool:
        """Whether raw order can be checked: no output may repeat, and no offset came twice."""
        exactly = self._scenario.delivery is Delivery.EXACTLY_ONCE
        return exactly and not (self._scenario.again or self._lost)

    def _judge_record(
        self,
        chain: Chain,
        record: RawDocument,
        outputs: dict[tuple[int, int], list[ReceivedOutput]],
        *,
        repeats: bool,
    ) -> None:
        received = outputs[chain.partition, record.offset]
        expected = self._expected(chain, record)
        where = f"{chain.topic}-{chain.topic_id}/{chain.partition}@{record.offset}"
        for each in expected:
            found = [other for other in received if _is_same(each, other)]
            if not found:
                raise ViolationError(f"{where}: {each} is missing; put out: {received}")
            for other in found if repeats and not self._scenario.again else found[:1]:
                received.remove(other)
        is_lost = (chain.partition, record.offset) in self._lost
        if received and not self._scenario.again and not is_lost:
            raise ViolationError(f"{where}: {received} beside {expected}")

    def _judge_lost(
        self,
        place: tuple[int, int],
        lost: list[RawDocument],
        received: list[ReceivedOutput],
        *,
        repeats: bool,
    ) -> None:
        """Take away the outputs of lost records: one for each that was read, or more."""
        partition, offset = place
        allowed: list[ReceivedOutput] = []
        for chain, records in self.chains:
            if chain.partition != partition:
                continue
            current = next((each for each in records if each.offset == offset), None)
            chains = self._chains_with(chain, offset)
            if current is not None and current.document is not None:
                chains.pop()
            allowed += [each for other in chains for each in self._outputs_of(other, offset)]
        source = SourcePosition(self._topics.raw, partition, offset)
        allowed += [DeadLetterOutput(source, "", "") for each in lost if each.document is None]
        for each in allowed:
            found = [other for other in received if _is_same(each, other)]
            for other in found if repeats else found[:1]:
                received.remove(other)

    def _chains_with(self, chain: Chain, offset: int) -> list[Chain]:
        """Return the chains of a partition, one after the other, that have a document there."""
        chains = [chain]
        while len(chains) <= _CHAINS:
            chains.append(chains[-1].after_loss())
        return [each for each in chains if (each, offset) in self.log._truths]

    def _expected(self, chain: Chain, record: RawDocument) -> list[ReceivedOutput]:
        source = SourcePosition(chain.topic, chain.partition, record.offset)
        if record.document is None:
            return [DeadLetterOutput(source, "", "")]
        chains = self._chains_with(chain, record.offset)
        if not chains or (chains[-1], record.offset) not in self.log._decided:
            raise ViolationError(f"{source} is put out, and there is no verdict in the log")
        if not _is_repeated(self.log._logged[chains[-1], record.offset], record.document):
            raise ViolationError(f"{source}: the log has a verdict of another record")
        return self._outputs_of(chains[-1], record.offset)

    def _outputs_of(self, chain: Chain, offset: int) -> list[ReceivedOutput]:
        """Return the outputs of a document by its verdict in the log."""
        source = SourcePosition(chain.topic, chain.partition, offset)
        document, truth = self.log._logged[chain, offset], self.log._truths[chain, offset]
        gone = bool(truth.removed)
        if document.is_delete:
            put_out = gone or self._scenario.window is not None
            return [TombstoneOutput(source, document.document_id, "deleted")] if put_out else []
        if truth.original is None:
            return [UniqueOutput(source, document.document_id, "")]
        original = truth.original
        duplicate = DuplicateOutput(
            source,
            document.document_id,
            original.source,
            original.document.document_id,
            truth.distance,
            self._scenario.scheme.bits,
            0.0,
            "",
        )
        if gone or (self._scenario.replaces and self._scenario.window is not None):
            return [TombstoneOutput(source, document.document_id, "replaced"), duplicate]
        return [duplicate]

    # ---- the index

    def _compacted(self, records: list[Stored]) -> list[Stored]:
        """Return a changelog after compaction up to some offset, with some of the tombstones."""
        rng = random.Random(self._scenario.seed)
        cleaned = rng.choice([rng.randint(0, len(records)), len(records)])
        kept = compacted(records[:cleaned])
        left = [each for each in kept if each.value is not None or rng.random() < _TOMBSTONES_KEPT]
        return left + records[cleaned:]

    def _entries(self, state: Callable[[list[Stored]], list[Stored]]) -> dict[int, Entry]:
        """Return the entries that a new worker would read from a ``state`` of the changelog."""
        entries: dict[int, Entry] = {}
        for number, partition in enumerate(self._cluster.topics[self._topics.changelog].partitions):
            owner = StoreIdentity(self._identity or "", "judge", number, "")
            store = open_shard(Path(str(number)), owner, self._scenario.scheme.bits, MemoryDisk())
            records = state(partition.read_committed())
            if records:
                batch = logged_batch(records, f"changelog/{number}")
                load_batch(store, batch, batch.decoded(), self._identity or "")
            entries.update(store.all_entries())
        return entries


_COMPARED: Final[dict[type, tuple[str, ...]]] = {
    UniqueOutput: ("id",),
    DeadLetterOutput: (),
    TombstoneOutput: ("source", "id", "reason"),
    DuplicateOutput: ("id", "original", "original_id", "distance"),
}
"""The fields that must be as expected, by kind of output."""


def _is_same(expected: ReceivedOutput, received: ReceivedOutput) -> bool:
    fields = _COMPARED[type(expected)]
    return type(expected) is type(received) and all(
        getattr(expected, each) == getattr(received, each) for each in fields
    )


def _is_repeated(logged: SimulatedDocument, document: SimulatedDocument) -> bool:
    """Return whether a document may have the verdict of another one, as if it were that one.

    A lost record may be sent again, later, and get its former offset.
    """
    return logged == document._replace(time_ms=logged.time_ms)


def packets_of(judge: Judge) -> int:
    return sum(len(each) for each in judge._counting.values())
