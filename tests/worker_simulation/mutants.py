"""Mutants of the shell: the rules of streams/worker, of the store and of the clients.

Some of them are faults that a review found in an earlier shell (revocations that their time limit
ended, commits without offsets, and others), in the form that they would have in today's code.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from simhash_core.log import versions
from simhash_core.log.decider import Decider
from simhash_core.log.participant import Participant
from simhash_core.log.records import NO_CONTROL, Control, Progress
from simhash_core.log.replica import Replica
from simhash_core.log.versions import Readers
from streams.kafka.producers import UNCHECKED
from streams.settings.settings import Delivery
from streams.store import changelog_codec, recovery
from streams.store.changelog_codec import WRITER_BYTES
from streams.store.lineage import Lineage
from streams.store.row_codec import StoreIdentity
from streams.store.shard_directory import open_shard, shard_directory
from streams.store.shard_store import ShardStore
from streams.worker import assignment, commit, decide, timestamp_merge
from streams.worker.assignment import Assignment
from streams.worker.commit import OutputCommits
from streams.worker.consume import Intake
from streams.worker.decide import Leader
from streams.worker.look_up import LogLookUp
from streams.worker.order import BundleSender
from streams.worker.pipeline import Pipeline, Wake
from streams.worker.shard import Shard
from tests.simulation.mutant import many_records
from tests.simulation.replacements import Replacement
from tests.worker_simulation import host, world
from tests.worker_simulation.cluster import ClusterLimits
from tests.worker_simulation.committers import BEGIN, SimulatedTransactions
from tests.worker_simulation.group import GroupCoordinator
from tests.worker_simulation.index_clients import SimulatedIndexAdmin
from tests.worker_simulation.member import SimulatedGroupMember
from tests.worker_simulation.mutant import WorkerMutant
from tests.worker_simulation.network import NetworkFaults
from tests.worker_simulation.scenario import (
    Event,
    Fault,
    Releases,
    StoreFate,
    Theme,
    WorkerScenario,
    draw_events,
)

# ---- scenarios


def faults_of(theme: Theme) -> Callable[[WorkerScenario], list[Event]]:
    def events(scenario: WorkerScenario) -> list[Event]:
        rng = random.Random(scenario.seed)
        return sorted(draw_events(rng, theme, scenario.produced_seconds))

    return events


def group_of(workers: int, theme: Theme, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - any field
    """Return the changes for a theme with this many workers, on partitions that all exist."""
    return {
        "workers": workers,
        "partitions": many_records(2 * workers, 40),
        "born": 2 * workers,
        "again": [],
        "produced_seconds": 12.0,
        "delivery": Delivery.EXACTLY_ONCE,
        "events": faults_of(theme),
        "standbys": 0,
        **more,
    }


def at_moments(fault: Fault, moments: tuple[str, ...], seconds: float) -> list[Event]:
    """Return faults that happen at requests, one every three seconds."""
    return [
        Event(0.0 + 3 * at, fault, seconds, (at * 0.37) % 1, StoreFate.KEPT, moment)
        for at, moment in enumerate(moments)
    ]


def slow_markers(scenario: WorkerScenario) -> ClusterLimits:
    """Return a change: some ends of transactions become visible only after seconds."""
    return replace(scenario.cluster, markers_seconds=5.5, slow_markers=1.0)


def held_ends(scenario: WorkerScenario) -> list[Event]:
    """Return a change: ends of transactions arrive during the next transactions."""
    rng = random.Random(scenario.seed)
    return [
        Event(1.0 + each, Fault.HOLD, 0.0, rng.random(), StoreFate.KEPT, "end a transaction")
        for each in range(12)
    ]


def joins(scenario: WorkerScenario) -> list[Event]:
    """Return a change: workers keep joining."""
    rng = random.Random(scenario.seed)
    times = [4.0 + 6 * each + rng.uniform(0.0, 5.0) for each in range(6)]
    return [Event(at, Fault.JOIN, 0.0, 0.0, StoreFate.KEPT) for at in times]


def stands_still(_: WorkerScenario) -> list[Event]:
    """Return a change: an event loop stands still while a partition leaves and comes back."""
    return [
        Event(0.02, Fault.LOOP_PAUSE, 14.5, 0.0, StoreFate.KEPT, "append"),
        Event(2.8, Fault.LEAVE, 10.0, 0.9, StoreFate.KEPT),
    ]


def idle_moves(scenario: WorkerScenario) -> list[Event]:
    """Return a change: workers restart when there is nothing more to do."""
    rng = random.Random(scenario.seed)
    return [Event(at, Fault.STOP, 4.0, rng.random(), StoreFate.KEPT) for at in (25.0, 45.0)]


def zombies_of_positions(scenario: WorkerScenario) -> list[Event]:
    """Return a change: workers pause when they begin a commit, mostly one of positions only."""
    rng = random.Random(scenario.seed)
    return [
        Event(at, Fault.PAUSE, rng.uniform(8.0, 12.0), rng.random(), StoreFate.KEPT, BEGIN)
        for at in (9.0, 10.0, 19.0, 20.0, 29.0, 39.0, 49.0)
    ]


def fenced_ends(scenario: WorkerScenario) -> list[Event]:
    """Return a change: openings come late, while ends of transactions wait for their response."""
    rng = random.Random(scenario.seed)
    events = []
    for at in (2.0, 12.0, 22.0):
        which = rng.random()
        end = Event(at + 2.0, Fault.SILENCE, 6.0, which, StoreFate.KEPT, "end a transaction")
        events += [Event(at, Fault.LOSSES, 3.0, which, StoreFate.KEPT), end]
    return events


def power_loss(scenario: WorkerScenario) -> list[Event]:
    """Return a change: shards move, brokers forget it, and then the shards move again."""
    rng = random.Random(scenario.seed)
    at, lost = rng.uniform(4.0, 10.0), rng.uniform(3.0, 8.0)
    loss = Event(at, Fault.POWER, lost, rng.random(), StoreFate.KEPT)
    moves = [at + rng.uniform(0.0, lost), *(at + lost + 7.0 * each for each in range(2, 6))]
    return [loss, *(Event(each, Fault.STOP, 0.0, rng.random(), StoreFate.KEPT) for each in moves)]


def zombies_in_sends(scenario: WorkerScenario) -> list[Event]:
    """Return a change: workers pause while they send what they commit."""
    rng = random.Random(scenario.seed)
    return [
        Event(
            at + rng.uniform(0.0, 3.0), Fault.PAUSE, 12.0, rng.random(), StoreFate.KEPT, "produce"
        )
        for at in (2.0, 11.0, 20.0, 29.0, 38.0)
    ]


def power_loss_of_last_commits(scenario: WorkerScenario) -> list[Event]:
    """Return a change: brokers lose the last commits of a worker, and nothing of the log."""
    at = random.Random(scenario.seed).uniform(1.5, 3.5)
    return [
        Event(at, Fault.PAUSE, 2.0, 0.0, StoreFate.KEPT, BEGIN),
        Event(at + 1.0, Fault.POWER, 25.0, 0.0, StoreFate.KEPT),
    ]


def power_loss_of_appends(scenario: WorkerScenario) -> list[Event]:
    """Return a change: brokers lose records of a leader that still waits for their response."""
    rng = random.Random(scenario.seed)
    events = []
    for at in (3.0, 13.0, 23.0):
        events += [
            Event(at, Fault.SILENCE, 3.0, 0.0, StoreFate.KEPT, "append"),
            Event(at + rng.uniform(-0.2, 0.2), Fault.POWER, 1.0, 0.0, StoreFate.KEPT),
        ]
    return sorted(events)


# ---- what stands in the place of a rule


def nothing(_: object) -> Callable[..., None]:
    return lambda *_, **__: None


def nothing_awaited(_: object) -> Callable[..., Any]:
    async def nothing_(*_: object, **__: object) -> None:
        pass

    return nothing_


def always(value: object) -> Callable[[object], Callable[..., Any]]:
    return lambda _: lambda *_, **__: value


def value(value_: object) -> Callable[[object], object]:
    return lambda _: value_


def _revoked_later(_: object) -> Callable[..., Any]:
    """Close no shard, as if the time limit had ended its revocation."""

    def revoked(self: Assignment, partitions: object) -> Any:  # noqa: ANN401 - of Assignment
        del partitions
        return self._events.without([])

    return revoked


def _in_a_task(original: Any) -> Callable[..., Any]:  # noqa: ANN401 - of Pipeline
    """Close shards in a task, and so after what the member announces next."""

    def revoked(self: Pipeline, *arguments: Any) -> Any:  # noqa: ANN401 - of Pipeline
        async def later() -> None:
            await original(self, *arguments)

        return later()

    return revoked


def _known_shard(original: Any) -> Callable[..., Any]:  # noqa: ANN401 - of Assignment
    def assign(self: Assignment, partition: int) -> Shard:
        known = self.shards.get(partition)
        return known if known is not None else original(self, partition)

    return assign


def _only_outputs_have_offsets(original: Any) -> Callable[..., Any]:  # noqa: ANN401 - a function
    async def output_batch(shards: Any, *arguments: Any) -> Any:  # noqa: ANN401 - of commit
        batch = await original(shards, *arguments)
        with_outputs = {each.partition for each in shards if each.ready.outputs}
        for partition in batch.offsets.keys() - with_outputs:
            del batch.offsets[partition]
        return batch

    return output_batch


def _with_reading_of_today(original: Any) -> Callable[..., Any]:  # noqa: ANN401 - of Intake
    def put(self: Intake, run: Any) -> None:  # noqa: ANN401 - RawRecords
        shard = self._shards.get(run.partition)
        original(self, run if shard is None else run._replace(reading=shard.number))

    return put


def _all_is_stable(_: object) -> Callable[..., Any]:
    def fetch_offsets(self: GroupCoordinator, partitions: Any) -> dict[int, int]:  # noqa: ANN401
        return {p: self.offsets[p].offset if p in self.offsets else -1 for p in partitions}

    return fetch_offsets


def _as_far_as_it_is_read(original: Any) -> Callable[..., Any]:  # noqa: ANN401 - a function
    def catch_up(store: Any, log: Any, identity: str, _: int, report: Any) -> Any:  # noqa: ANN401
        return original(store, log, identity, 0, report)

    return catch_up


def _if_any_is_read(original: Any) -> Callable[..., Any]:  # noqa: ANN401 - a function
    def is_ahead(before: Lineage, last: Lineage | None) -> bool:
        return last is not None and original(before, last)

    return is_ahead


def _verified(_: object) -> Callable[..., Any]:
    async def verify(self: OutputCommits) -> bool:
        self._failures, self._is_verified = await self._committer.failures(), True
        return True

    return verify


def _not_new(original: Any) -> Callable[..., Any]:  # noqa: ANN401 - of Assignment
    def progress(self: Assignment, *arguments: Any) -> tuple[Progress, bool]:  # noqa: ANN401
        return original(self, *arguments)[0], False

    return progress


def _begin_at_once(_: object) -> Callable[..., Any]:
    """Do not take the position of shard 0."""

    async def begin_new(self: Assignment, new: Any) -> None:  # noqa: ANN401 - shards
        self._events.begin(shard for shard in new if self._is_wanted(shard))

    return begin_new


def _from_the_beginning(original: Any) -> Callable[..., Any]:  # noqa: ANN401 - of Assignment
    def progress(self: Assignment, store: Any, chain: Any, cluster: Any) -> Any:  # noqa: ANN401
        first, is_new = original(self, store, chain, cluster)
        if not is_new or cluster.claim is None:
            return first, is_new
        return Progress(chain, 0, cluster.log_start, NO_CONTROL), True

    return progress


def _without_removals(original: Any) -> Callable[..., Any]:  # noqa: ANN401 - of ShardStore
    def change(self: ShardStore, entries: Any, _: object = (), before: int = 0) -> Any:  # noqa: ANN401
        return original(self, entries, (), before)

    return change


def _ahead(original: Any) -> Callable[..., Any]:  # noqa: ANN401 - of OutputCommits
    def stored(self: OutputCommits, ready: Any, ends: Mapping[int, int]) -> Any:  # noqa: ANN401
        return original(self, ready, {p: end + 3 for p, end in ends.items()})

    return stored


class _Furthest(dict[int, int]):
    """Positions; the furthest one is used as the lowest."""

    def values(self) -> Any:  # noqa: ANN401 - of dict
        return [max(super().values())]


def _completed_at_once(_: object) -> Callable[..., Any]:
    def note_keys(self: ShardStore) -> None:
        assert self._column is not None
        self._column.complete()
        self._unnoted = []

    return note_keys


def _to_the_furthest(original: Any) -> Callable[..., Any]:  # noqa: ANN401 - of Leader
    async def trim(self: Leader, partitions: int) -> None:
        self._positions = _Furthest(self._positions)
        await original(self, partitions)

    return trim


def _prepared_at_once(_: object) -> Callable[..., Any]:
    async def prepare(self: Leader) -> None:
        self._prepared = True

    return prepare


def _only_positions(_: object) -> Callable[..., Any]:
    def take_report(self: Leader, report: Any) -> None:  # noqa: ANN401 - Report
        self._positions.update(report.positions)

    return take_report


def _without_seek(_: object) -> Callable[..., Any]:
    def begin(self: LogLookUp, offset: int) -> None:
        del offset
        self._session += 1

    return begin


def _keeps_in_flight(_: object) -> Callable[..., Any]:
    def end(self: Intake, shard: Shard) -> None:
        self._merge.remove(shard.queue)
        self._turned_back.pop(shard, None)

    return end


def _not_rebuilt(_: object) -> Callable[..., Any]:
    def open_(self: Any, partition: int) -> Any:  # noqa: ANN401 - of ShardStores
        settings = self._settings
        path = shard_directory(settings.state_dir, settings.application_id, partition)
        owner = StoreIdentity(
            self._identity, settings.application_id, partition, self._changelog_id
        )
        return open_shard(path, owner, self._profile.bits, self._disk)

    return open_


def _is_open(_: object) -> Callable[..., Any]:
    def is_current(self: BundleSender, run: Any) -> bool:  # noqa: ANN401 - RawRecords
        shard = self._shards.get(run.partition)
        return shard is not None and shard.is_open

    return is_current


def rolling(scenario: WorkerScenario) -> list[Event]:
    """Return a change: the workers are replaced one by one, and one is killed meanwhile."""
    replaced = [
        Event(6.0 + 9 * each, Fault.REPLACE, 0.0, 0.0, StoreFate.KEPT)
        for each in range(scenario.workers)
    ]
    return sorted([*replaced, Event(17.0, Fault.KILL, 1.0, 0.4, StoreFate.KEPT)])


def _forgotten(original: Any) -> Callable[..., Any]:  # noqa: ANN401 - of Decider
    def first_record(self: Decider, replica: Replica) -> Control | None:
        first = original(self, replica)
        return None if first is None else msgspec.structs.replace(first, version=versions.OLDEST)

    return first_record


def _newest_changelog(original: Any) -> Callable[..., Any]:  # noqa: ANN401 - a function
    def output_batch(shards: Any, rules: Any, stored: Any, _: int) -> Any:  # noqa: ANN401 - of commit
        return original(shards, rules, stored, versions.NEWEST)

    return output_batch


_ZOMBIES: Final = group_of(3, Theme.ZOMBIES)
_MOVES: Final = group_of(3, Theme.MOVES)
_LOSSES: Final = group_of(2, Theme.LOSSES, send_timeout_seconds=8.0)
_OUTAGES: Final = group_of(2, Theme.OUTAGES, send_timeout_seconds=8.0)
_KILLS: Final = group_of(2, Theme.KILLS)
_CALM: Final = group_of(2, Theme.MIXED, events=[])
_UPGRADE: Final = group_of(
    3, Theme.MIXED, releases=Releases.BOTH, events=rolling, produced_seconds=40.0
)
_SILENCES: Final = group_of(2, Theme.SILENCES, send_timeout_seconds=8.0)
_SLOW_COMMITS: Final = group_of(2, Theme.SLOW_COMMITS, partitions=many_records(4, 100))
_SLOW_MARKERS: Final = {
    **_MOVES,
    "cluster": slow_markers,
    "partitions": many_records(9, 300),
    "born": 9,
    "workers": 1,
    "produced_seconds": 40.0,
    "events": joins,
    "poll_seconds": 0.005,
    "in_flight": 4_000,
    "settled_seconds": 400.0,
}
_AT_LEAST_ONCE: Final = group_of(
    3,
    Theme.ZOMBIES,
    delivery=Delivery.AT_LEAST_ONCE,
    replaces=True,
    partitions=many_records(6, 80),
    verifier=None,
    window=None,
)
_POWER: Final = group_of(
    2, Theme.MIXED, events=power_loss, produced_seconds=45.0, partitions=many_records(4, 60)
)
_POWER_OF_APPENDS: Final = group_of(
    3,
    Theme.MIXED,
    events=power_loss_of_appends,
    produced_seconds=30.0,
    batch_documents=1,
    batch_bundles=1,
)
_FIRST_COMMITS: Final = group_of(
    3,
    Theme.KILLS,
    transaction_seconds=600.0,
    events=at_moments(Fault.KILL, ("produce",), 1.0),
)


def _mutant(
    name: str,
    owner: Any,  # noqa: ANN401 - a class or a module
    attribute: str,
    broken: Callable[[Any], Any],
    changes: Mapping[str, Any],
    start: int = 0,
) -> WorkerMutant:
    return WorkerMutant(name, (Replacement(owner, attribute, broken),), changes, start)


MUTANTS: Final[tuple[WorkerMutant, ...]] = (
    WorkerMutant(
        "a revocation that takes too long leaves its shards open, and they come back as they are",
        (
            Replacement(Assignment, "revoked", _revoked_later),
            Replacement(Assignment, "_assign", _known_shard),
        ),
        _MOVES,
    ),
    _mutant(
        "shards are closed in a task after a revocation, and so after their next assignment",
        Pipeline,
        "revoked",
        _in_a_task,
        group_of(2, Theme.MIXED, events=stands_still, produced_seconds=3.0),
    ),
    _mutant("shards that are lost stay open", Assignment, "lost", nothing, _ZOMBIES, start=1),
    _mutant(
        "a partition whose timestamps are late has no turn beside a backlog",
        timestamp_merge.TimestampMerge,
        "_is_passed_over",
        always(False),
        {
            **_CALM,
            "workers": 1,
            "partitions": many_records(2, 600),
            "born": 2,
            "produced_seconds": 0.1,
            "batch_documents": 4,
            "batch_bundles": 1,
            "poll_records": 20,
            "in_flight": 8,
            "network": NetworkFaults(),
            "late_partition": 1,
            "settled_seconds": 600.0,
            "fair_records": 150,
        },
    ),
    _mutant(
        "a commit without outputs has no offsets, and so no generation",
        commit,
        "output_batch",
        _only_outputs_have_offsets,
        {
            **group_of(3, Theme.ZOMBIES, partitions=many_records(6, 40), produced_seconds=60.0),
            "events": zombies_of_positions,
            "poll_seconds": 0.2,
        },
        start=6,
    ),
    _mutant(
        "a client waits longer than a session before it connects again",
        host,
        "AGAIN_SECONDS",
        value((0.01, 12.0)),
        _OUTAGES,
        start=20,
    ),
    _mutant(
        "a report that was acknowledged and lost is never made again",
        LogLookUp,
        "is_report_lost",
        always(False),
        {**_CALM, "reports_lost": 0.3},
    ),
    _mutant(
        "nobody knows who was in the group, and has left a transaction open",
        SimulatedIndexAdmin,
        "remember_members",
        nothing_awaited,
        _FIRST_COMMITS,
    ),
    _mutant(
        "what workers that are gone have left open is not aborted",
        SimulatedIndexAdmin,
        "abort_left_open",
        nothing_awaited,
        _FIRST_COMMITS,
        start=2,
    ),
    _mutant(
        "offsets in open transactions are taken for stable",
        GroupCoordinator,
        "fetch_offsets",
        _all_is_stable,
        _SLOW_MARKERS,
        start=19,
    ),
    _mutant(
        "the coordinator takes commits of any generation",
        GroupCoordinator,
        "_check_member",
        nothing,
        _SLOW_COMMITS,
        start=3,
    ),
    _mutant(
        "a store is taken as far as it can be read, not as far as the group has committed",
        recovery,
        "catch_up",
        _as_far_as_it_is_read,
        _SLOW_MARKERS,
        start=20,
    ),
    _mutant("a store is not brought up", recovery, "catch_up", always(0), _KILLS),
    _mutant(
        "the index is not filled from the store",
        assignment,
        "fill_index",
        lambda _: lambda *_: iter(()),
        _MOVES,
    ),
    _mutant(
        "after a commit without an answer a worker goes on",
        Assignment,
        "reopen",
        nothing,
        _SILENCES,
    ),
    _mutant(
        "a packet of which nothing is known is not sent again",
        BundleSender,
        "_appended",
        lambda _: lambda _self, _shard, _packet, future: future.exception(),
        _SILENCES,
    ),
    _mutant(
        "a leader waits for a control record that is not there",
        Participant,
        "control_failed",
        nothing,
        _SILENCES,
    ),
    _mutant("a leader reads no reports", Leader, "prepare", _prepared_at_once, _CALM),
    _mutant(
        "a leader does not take its own reports", Leader, "take_report", _only_positions, _CALM
    ),
    WorkerMutant(
        "records that were read for an earlier shard are taken in",
        (
            Replacement(SimulatedGroupMember, "_is_current", always(True)),
            Replacement(Intake, "_put", _with_reading_of_today),
            Replacement(BundleSender, "_is_current", _is_open),
        ),
        _SILENCES,
    ),
    _mutant(
        "a raw topic that is created again is not noticed",
        Pipeline,
        "_look_at_topic",
        nothing_awaited,
        {**_CALM, "again": many_records(4, 12)},
    ),
    _mutant(
        "the changelog has no partition for one that was added",
        SimulatedIndexAdmin,
        "grow_changelog",
        nothing_awaited,
        {**_CALM, "born": 2, "events": [Event(2.0, Fault.PARTITION, 0.0, 0.0, StoreFate.KEPT)]},
    ),
    _mutant("a session goes on where the last one was", LogLookUp, "begin", _without_seek, _MOVES),
    _mutant(
        "the first progress of a shard is not committed",
        Assignment,
        "_progress",
        _not_new,
        {
            **group_of(
                3, Theme.KILLS, partitions=many_records(6, 120), born=2, produced_seconds=30.0
            ),
            "events": [
                Event(5.0, Fault.PARTITION, 0.0, 0.0, StoreFate.KEPT),
                Event(5.5, Fault.KILL, 0.0, 0.0, StoreFate.KEPT, "add offsets"),
                Event(7.5, Fault.KILL, 0.0, 0.4, StoreFate.KEPT, "add offsets"),
                Event(9.5, Fault.KILL, 0.0, 0.9, StoreFate.KEPT, "add offsets"),
            ],
        },
        start=105,
    ),
    WorkerMutant(
        "a new shard reads the log from its beginning, beside control records that it lacks",
        (
            Replacement(Assignment, "_progress", _from_the_beginning),
            Replacement(Assignment, "_begin_new", _begin_at_once),
        ),
        {
            **_CALM,
            "born": 1,
            "produced_seconds": 100.0,
            "events": [Event(90.0, Fault.PARTITION, 0.0, 0.0, StoreFate.KEPT)],
        },
    ),
    _mutant(
        "entries that are removed stay in the store",
        ShardStore,
        "change",
        _without_removals,
        {**_KILLS, "replaces": True},
    ),
    _mutant(
        "a store is not looked up in for what it had when it was opened",
        ShardStore,
        "note_keys",
        _completed_at_once,
        {**_KILLS, "replaces": True},
    ),
    WorkerMutant(
        "a store that says it has read more of its changelog than it has is not rebuilt",
        (
            Replacement(OutputCommits, "_stored", _ahead),
            Replacement(Lineage, "continues", always(True)),
        ),
        _KILLS,
        start=26,
    ),
    _mutant(
        "a store is kept although its last commit is none of the changelog",
        Lineage,
        "continues",
        always(True),
        _POWER,
        start=33,
    ),
    _mutant(
        "a store is only ahead of progress that it reads",
        recovery,
        "is_ahead",
        _if_any_is_read,
        _POWER,
    ),
    _mutant(
        "a control record counts that decides what brokers have lost",
        Replica,
        "_has_decided",
        always(True),
        _POWER_OF_APPENDS,
        start=28,
    ),
    _mutant(
        "a commit builds on records that brokers have lost",
        OutputCommits,
        "_checks_of",
        always(UNCHECKED),
        _POWER,
        start=1,
    ),
    _mutant(
        "after a transaction that failed, nobody looks for the commits before",
        OutputCommits,
        "_verify",
        _verified,
        _POWER_OF_APPENDS,
        start=18,
    ),
    _mutant(
        "an idle worker does not notice that brokers have failed",
        OutputCommits,
        "_notice_failures",
        nothing_awaited,
        group_of(1, Theme.MIXED, events=power_loss_of_last_commits, produced_seconds=3.0),
        start=20,
    ),
    _mutant(
        "a producer keeps its epoch after a broken connection",
        SimulatedTransactions,
        "_needs_new_epoch",
        always(False),
        group_of(2, Theme.MIXED, network=NetworkFaults(), events=held_ends),
    ),
    _mutant(
        "a commit that was fenced is taken for one that did not take place",
        SimulatedTransactions,
        "_fenced_end_is_unknown",
        always(False),
        {**_LOSSES, "workers": 1, "produced_seconds": 30.0, "events": fenced_ends},
        start=8,
    ),
    _mutant(
        "a commit goes on although the broker no longer knows where its records are",
        SimulatedTransactions,
        "_unplaced",
        nothing,
        group_of(3, Theme.MIXED, network=NetworkFaults(answer_lost=0.1)),
    ),
    _mutant(
        "at least once, a record of the changelog counts wherever it stands",
        changelog_codec,
        "counts",
        always(True),
        _AT_LEAST_ONCE,
        start=12,
    ),
    _mutant(
        "at least once, records of several writers have the same keys",
        recovery,
        "token_bytes",
        always(bytes(WRITER_BYTES)),
        {**_AT_LEAST_ONCE, "compacts": True},
        start=18,
    ),
    _mutant(
        "at least once, a worker goes on whose records are not where it expected them",
        commit,
        "_is_in_place",
        always(True),
        _AT_LEAST_ONCE,
        start=27,
    ),
    WorkerMutant(
        "at least once, an idle shard does not notice late progress before it is compacted",
        (Replacement(world, "_UNCHANGED_SECONDS", value(math.inf)),),
        group_of(
            2,
            Theme.ZOMBIES,
            events=zombies_in_sends,
            delivery=Delivery.AT_LEAST_ONCE,
            compacts=True,
            partitions=many_records(1, 4),
            born=1,
            produced_seconds=6.0,
            verifier=None,
            window=None,
        ),
        start=69,
    ),
    _mutant(
        "at least once, nobody hears who owns a shard that has moved without documents",
        OutputCommits,
        "_repeats_progress",
        always(False),
        group_of(
            2,
            Theme.MIXED,
            events=idle_moves,
            delivery=Delivery.AT_LEAST_ONCE,
            standbys=1,
            produced_seconds=3.0,
            releases=Releases.NEWER,
        ),
        start=12,
    ),
    WorkerMutant(
        "the log is trimmed to the furthest position, at once",
        (
            Replacement(Leader, "trim", _to_the_furthest),
            Replacement(decide, "_POSITION_SECONDS", value(0.0)),
        ),
        {**_KILLS, "produced_seconds": 60.0},
    ),
    _mutant(
        "the protocol keeps shards that are closed",
        Participant,
        "drop_shard",
        nothing,
        _MOVES,
    ),
    _mutant(
        "a worker takes in more than it may",
        Intake,
        "_check_limits",
        nothing,
        {**_OUTAGES, "in_flight": 3, "poll_records": 50},
    ),
    _mutant(
        "what a closed shard had in flight counts for ever",
        Intake,
        "end",
        _keeps_in_flight,
        {**_MOVES, "in_flight": 3, "batch_documents": 3},
    ),
    _mutant("a stage is woken once", Wake, "awake", nothing, _CALM),
    _mutant(
        "a shard is opened while its store is still in use",
        Shard,
        "released",
        nothing_awaited,
        _SILENCES,
    ),
    _mutant(
        "a damaged store is not rebuilt",
        recovery.ShardStores,
        "_open_or_rebuild",
        _not_rebuilt,
        _KILLS,
    ),
    _mutant(
        "the version is raised before all members have reported that they read it",
        Readers,
        "check",
        always(True),
        _UPGRADE,
    ),
    _mutant(
        "the log is written in a version that is not in force yet",
        Participant,
        "version",
        lambda _: lambda worker: worker.reads,
        _UPGRADE,
    ),
    _mutant(
        "the changelog is written in a version that is not in force yet",
        commit,
        "output_batch",
        _newest_changelog,
        _UPGRADE,
    ),
    _mutant(
        "a new leader forgets the version in force",
        Decider,
        "first_record",
        _forgotten,
        {**_UPGRADE, "releases": Releases.NEWER, "events": faults_of(Theme.KILLS)},
    ),
    _mutant("nobody says what it reads", LogLookUp, "report_news", nothing, _UPGRADE),
    _mutant(
        "a leader does not look who is in the group",
        Leader,
        "update_members",
        nothing_awaited,
        _UPGRADE,
    ),
)
