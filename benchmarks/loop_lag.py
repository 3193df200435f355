"""Measures the longest step of a worker's event loop, during which all other tasks wait.

A whole worker runs on a loop that times every step. Its clients are those of the worker's tests, in
memory; its stores are real. There are four cases; in an earlier version each blocked the loop for
seconds:

- ``undecided``: 20,000 undecided bundles of one document, as five workers may have in flight, are
  read and reported; then another worker leads, and they are reported once more;
- ``replace``: the same with ``same_id=replace``, where undecided documents replace each other;
- ``partitions``: 1,000 raw partitions with 4,000 documents that wait for the report of another
  worker;
- ``first delete``: the first delete in an index of a million entries, or ``--entries``.

``opening`` are the steps before a case: shards are opened, and the index is filled. Times are CPU
milliseconds of the loop's thread, so that other processes do not count.

    python -m benchmarks.loop_lag [--case undecided …] [--entries 10000000] [--json -]
"""

from __future__ import annotations

import argparse
import asyncio
import contextvars
import gc
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from confluent_kafka import Message
from numpy.typing import NDArray

from benchmarks.command import add_number, add_state_dir, new_parser
from benchmarks.random_documents import PACKET, random_columns
from benchmarks.recovery import from_records
from benchmarks.report import Figures, machine, publish
from simhash_core.document_columns import DELETE
from simhash_core.errors import FirstseenError
from simhash_core.log.records import (
    NO_CONTROL,
    Bundle,
    Chain,
    ChainHeads,
    Control,
    Packet,
    Progress,
    Report,
    Sender,
)
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import PROFILES
from streams.kafka.log_reader import LogRecords
from streams.kafka.raw_consumer import RawRecords
from streams.maintenance.index_transaction import FILLER
from streams.monitoring.metrics import Metrics
from streams.ops_page.duplicates import RecentDocuments
from streams.settings.loader import load_settings
from streams.store.rocksdb_store import block_cache
from streams.store.row_codec import StoreIdentity
from streams.store.shard_directory import RocksDisk, open_shard
from streams.store.shard_store import ShardStore
from streams.worker.clients import ChangelogClient, Deliver, WorkerClients
from streams.worker.context import Observers
from streams.worker.index_on_kafka import Claim, reading_rules
from streams.worker.log_codec import LogCodec
from streams.worker.outputs import OutputRules
from streams.worker.pipeline import Pipeline
from tests.unit.worker import hand_driven

STEP_MAX: Final = 0.05
"""The limit of a step, in seconds."""
_OTHER: Final = f"{hand_driven.SETTINGS.application_id}.other"
_WORKERS: Final = 5
_WAIT_SECONDS: Final = 900.0
_LOOK_SECONDS: Final = 0.005
_COLLECTED_OBJECTS: Final = 50_000
"""The garbage collector's threshold, as in a worker."""
_FETCHED_RECORDS: Final = 500


class TimedLoop(asyncio.SelectorEventLoop):
    """An event loop that measures each of its steps, in CPU seconds of its thread."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[float] = []

    def call_soon(
        self,
        callback: Callable[..., object],
        *args: object,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        return super().call_soon(self._timed, callback, args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: object,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return super().call_at(when, self._timed, callback, args, context=context)

    def _timed(self, callback: Callable[..., object], args: tuple[object, ...]) -> None:
        begun = time.thread_time()
        callback(*args)
        self.steps.append(time.thread_time() - begun)


class _Log(hand_driven.Reader):
    """A log that returns as many records together as a fetch does."""

    def take(self) -> LogRecords | None:
        first = len(self.records) if self._next is None else self._next
        records = self.records[first : first + _FETCHED_RECORDS]
        if not records:
            return None
        self._next = first + len(records)
        return LogRecords(self._epoch, [(first + at, *each) for at, each in enumerate(records)])


class _Index(hand_driven.Index):
    """An index whose log has already begun."""

    def __init__(self, broker: hand_driven.Broker, claim: Claim, partitions: int) -> None:
        super().__init__(broker)
        self.foreign_claim = claim
        self._partitions = partitions

    async def partitions(self) -> int:
        return self._partitions


class _Stores(hand_driven.Stores):
    """Opens real stores in a directory; their changelogs have as many records, without content."""

    def __init__(
        self, broker: hand_driven.Broker, directory: Path, identity: str, bits: int
    ) -> None:
        self._broker = broker
        self._directory = directory
        self._identity = identity
        self._bits = bits
        self._cache = block_cache()

    def open(self, partition: int, *_: object) -> ShardStore:
        owner = StoreIdentity(self._identity, "benchmark", partition)
        path = self._directory / f"shard-{partition}"
        store = open_shard(path, owner, self._bits, RocksDisk(self._cache))
        changelog = self._broker.changelog[partition]
        changelog += [(b"", b"")] * (store.changelog_offset - len(changelog))
        return store


def _follow(_: Deliver) -> ChangelogClient:
    raise AssertionError("a worker of a benchmark keeps no standbys")  # standbys=0


class Worker:
    def __init__(self, profile: str, directory: Path, partitions: int, *settings: str) -> None:
        application = f"application_id={hand_driven.SETTINGS.application_id}"
        assignments = [application, f"profile={profile}", f"state_dir={directory}", *settings]
        self.settings = load_settings(assignments=assignments, environ={}).settings
        fingerprinter = Fingerprinter(self.settings.index_profile())
        bits = fingerprinter.scheme.bits
        identity, reading = fingerprinter.identity, reading_rules(self.settings)
        self.codec = LogCodec(identity)
        self.identity = identity
        self.broker = hand_driven.Broker()
        self.stores = _Stores(self.broker, directory, identity, bits)
        self.log, self.reports = _Log(self.broker.log), _Log(self.broker.reports)
        self.member = hand_driven.Member(self.broker)
        topics = self.settings.topics
        clients = WorkerClients(
            self.member,
            self.log,
            self.reports,
            hand_driven.Appender({topics.log: self.log, topics.reports: self.reports}),
            hand_driven.Committer(self.broker),
            _Index(self.broker, Claim(identity, reading, 0, NO_CONTROL), partitions),
            self.stores,
            _follow,
            lambda: None,
        )
        name = "benchmark"
        rules = OutputRules(
            identity, reading, name, bits, topics, include_body=False, application=name
        )
        self._channels = [hand_driven.Channel(1) for _ in range(4)]
        self.failures: list[FirstseenError] = []
        self.pipeline = Pipeline(
            self.settings,
            fingerprinter,
            rules,
            Observers(Metrics(), RecentDocuments(0), lambda _fullest: None),
            clients,
            self._channels,
            self.failures.append,
        )
        self._tasks: list[asyncio.Task[None]] = []

    def chain(self, partition: int) -> Chain:
        return Chain(self.settings.topics.raw, "raw-id", partition)

    def lead_elsewhere(self, partitions: Sequence[int], previous: int = NO_CONTROL) -> int:
        """Let another worker lead, with documents of these partitions in the log.

        ``previous`` is the offset of the last control record. Returns the offset of the new one.
        """
        heads = ChainHeads.of((self.chain(partition), -1) for partition in partitions)
        control = Control(previous, f"{_OTHER}.{previous + 2}", True, [], heads, previous + 1)
        return self.log.append(self.codec.encode(control))

    async def open(self, partitions: Sequence[int]) -> None:
        pipeline = self.pipeline
        stages = (pipeline.fingerprint, pipeline.look_up, pipeline.decide, pipeline.commit)
        for channel, stage in zip(self._channels, stages, strict=True):
            self._tasks.append(asyncio.ensure_future(self._run(channel, stage)))
        await pipeline.open()
        pipeline.assigned(frozenset(partitions), b"")
        await self.until(lambda: len(pipeline.participant.shards) == len(partitions))

    async def _run(self, channel: hand_driven.Channel, stage: Callable[[], Any]) -> None:
        while True:
            await channel.get()
            await stage()
            await asyncio.sleep(0)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until ``holds`` returns true; raises ``RuntimeError`` if it does not in time."""
        end = time.monotonic() + _WAIT_SECONDS
        while not holds():
            for error in self.failures:
                raise error
            for task in filter(asyncio.Task.done, self._tasks):
                task.result()
            if time.monotonic() > end:
                raise RuntimeError(f"the worker was not done within {_WAIT_SECONDS:g} s")
            await asyncio.sleep(_LOOK_SECONDS)

    async def close(self) -> None:
        await self.pipeline.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def undecided(self) -> int:
        packets = self.pipeline.participant.replica.undecided.values()
        return sum(len(each.columns) for each in packets)

    @property
    def has_reported(self) -> bool:
        """Return whether the log is read to its end, and all undecided documents were looked up."""
        participant = self.pipeline.participant
        is_read = participant.replica.position == len(self.log.records)
        return is_read and not participant.has_to_report


def bundles_of_others(
    worker: Worker, profile: str, bundles: int, operations: NDArray[np.uint8] | None = None
) -> Iterator[Bundle]:
    """Yield bundles of one document, of all workers in turn; the store has the first ids."""
    heads = dict.fromkeys(range(_WORKERS), -1)
    for number in range(bundles):
        partition = number % _WORKERS
        last = heads[partition] + 1
        columns = random_columns(profile, number * PACKET + 1, 1)
        columns = replace(columns, offsets=np.array([last]), operations=operations)
        sender = Sender(f"firstseen.worker-{partition}.1", last)
        yield Bundle.of([Packet(worker.chain(partition), sender, last - 1, last, columns)])
        heads[partition] = last


def fill_store(worker: Worker, profile: str, partition: int, entries: int) -> None:
    """Store entries, and make the log as long as it was with their bundles."""
    for _ in range(-(-entries // PACKET)):
        worker.log.append(FILLER)
    progress = Progress(worker.chain(partition), entries, 0, NO_CONTROL)
    with closing(worker.stores.open(partition)) as store:
        from_records(store, profile, entries, worker.identity, progress)


def measured(
    name: str, documents: int, worker: Worker, partitions: Sequence[int], work: Callable[[], Any]
) -> Figures:
    """Open the shards of a worker, do ``work``, and return the times of its steps.

    ``longest`` has the five longest steps in CPU milliseconds; ``over`` counts steps over 50 ms.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECTED_OBJECTS)
    loop = TimedLoop()
    asyncio.set_event_loop(loop)
    opening: list[float] = []

    async def run() -> None:
        nonlocal opening
        await worker.open(partitions)
        opening, loop.steps = loop.steps, []
        await work()

    try:
        loop.run_until_complete(run())
        steps = loop.steps
        loop.run_until_complete(worker.close())
    finally:
        loop.close()
        gc.unfreeze()
    return {
        "name": name,
        "documents": documents,
        "longest": [round(each * 1000, 1) for each in sorted(steps, reverse=True)[:5]],
        "over": sum(each > STEP_MAX for each in steps),
        "steps": len(steps),
        "cpu_seconds": round(sum(steps), 2),
        "opening_longest": round(max(opening) * 1000, 1),
    }


def undecided(name: str, profile: str, directory: Path, bundles: int, *settings: str) -> Figures:
    """Read and report bundles for another worker to decide, and again for its successor."""
    worker = Worker(profile, directory, _WORKERS, *settings)
    fill_store(worker, profile, 1, bundles)
    control = worker.lead_elsewhere(range(_WORKERS))
    values = [worker.codec.encode(each) for each in bundles_of_others(worker, profile, bundles)]

    async def read_all() -> None:
        for value in values:
            worker.log.append(value)
        await worker.until(lambda: worker.has_reported)
        worker.lead_elsewhere(range(_WORKERS), control)
        await worker.until(lambda: worker.has_reported)

    return measured(name, bundles, worker, [1], read_all)


def many_partitions(profile: str, directory: Path, partitions: int, rounds: int) -> Figures:
    """Read records of many partitions; decide and output them after another worker's report."""
    worker = Worker(profile, directory, partitions + 1)
    participant = worker.pipeline.participant
    worker.lead_elsewhere([partitions])
    documents = partitions * rounds

    async def output_all() -> None:
        await worker.until(lambda: participant.leads)
        for number in range(rounds):
            runs = _raw_records(worker, partitions, number)
            worker.member.put(*runs, ended=range(partitions))
            sent = (number + 1) * partitions
            await worker.until(lambda: worker.undecided == sent)  # noqa: B023
        await worker.until(lambda: worker.has_reported)
        control, end = participant.replica.control, participant.replica.position
        report = Report(_OTHER, [partitions], control, control, end, [], {partitions: 0})
        worker.reports.append(worker.codec.encode_report(report))
        await worker.until(lambda: sum(worker.broker.offsets.values()) == documents)

    return measured("partitions", documents, worker, range(partitions), output_all)


def _raw_records(worker: Worker, partitions: int, offset: int) -> Iterator[RawRecords]:
    for partition in range(partitions):
        seeds = (partition * 31 + offset * 7 + each for each in range(60))
        text = " ".join(f"word{seed * 7919 % 99_991}" for seed in seeds)
        value = msgspec.json.encode({"id": f"{partition}-{offset}", "text": text})
        time_ms = hand_driven.START_MS + offset
        record = Message(partition=partition, offset=offset, value=value, timestamp=(1, time_ms))
        yield RawRecords(partition, worker.pipeline.shards[partition].number, [record], len(record))


def first_delete(profile: str, directory: Path, entries: int) -> Figures:
    """Read the first delete of an index, for which the index has to find entries by id."""
    worker = Worker(profile, directory, _WORKERS)
    fill_store(worker, profile, 1, entries)
    worker.lead_elsewhere(range(_WORKERS))

    async def delete() -> None:
        deletes = np.array([DELETE], dtype=np.uint8)
        (bundle,) = bundles_of_others(worker, profile, 1, deletes)
        worker.log.append(worker.codec.encode(bundle))
        await worker.until(lambda: worker.has_reported)

    return measured("first delete", entries, worker, [1], delete)


CASES: Final[Mapping[str, Callable[[argparse.Namespace, str, Path], Figures]]] = {
    "undecided": lambda chosen, profile, made: undecided(
        "undecided", profile, made, chosen.bundles
    ),
    "replace": lambda chosen, profile, made: undecided(
        "replace", profile, made, chosen.bundles, "index.same_id=replace"
    ),
    "partitions": lambda chosen, profile, made: many_partitions(
        profile, made, chosen.partitions, chosen.rounds
    ),
    "first delete": lambda chosen, profile, made: first_delete(profile, made, chosen.entries),
}


def run(options: argparse.Namespace) -> Figures:
    found = []
    for name in options.case:
        with tempfile.TemporaryDirectory(dir=options.state_dir, prefix="loop-lag-") as made:
            found.append(CASES[name](options, options.profile, Path(made)))
    return {"machine": machine(), "profile": options.profile, "cases": found}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser("benchmarks.loop_lag", __doc__)
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--profile", choices=list(PROFILES), default="wide")
    add_number(parser, "--bundles", 20_000, "undecided bundles")
    add_number(parser, "--partitions", 1_000, "raw partitions")
    add_number(parser, "--rounds", 4, "documents of each raw partition")
    add_number(parser, "--entries", 1_000_000, "entries before the first delete")
    add_state_dir(parser)
    options = parser.parse_args(arguments)
    publish(run(options), options.json)


if __name__ == "__main__":
    main()
