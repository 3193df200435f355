"""Mutants of the shell: the rules of streams/worker, of the store and of the clients.

Some of them are faults that a review found in an earlier shell (revocations that their time limit
ended, commits without offsets, and others), in the form that they would have in today's code.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from simhash_core.errors import FirstseenError
from simhash_core.log import versions
from simhash_core.log.decider import Decider
from simhash_core.log.participant import LEADING_SHARD, Participant
from simhash_core.log.records import NO_CONTROL, Chain, Progress
from simhash_core.log.replica import Replica
from simhash_core.log.shard_stream import ShardStream
from simhash_core.log.versions import Readers
from simhash_core.window import Window
from streams.kafka.clients import RawOffset
from streams.kafka.producers import UNCHECKED, AcknowledgedSends
from streams.kafka.raw_consumer import RawRecords
from streams.settings.settings import Delivery
from streams.store import changelog_codec, recovery
from streams.store.changelog_codec import WRITER_BYTES
from streams.store.lineage import Lineage
from streams.store.recovery import ShardStores
from streams.store.shard_store import ShardStore
from streams.worker import assignment, commit, decide, timestamp_merge
from streams.worker.alignment import Alignment
from streams.worker.assignment import Assignment
from streams.worker.commit import OutputCommits
from streams.worker.consume import Intake
from streams.worker.decide import Leader
from streams.worker.look_up import LogLookUp
from streams.worker.order import BundleSender
from streams.worker.outputs import OutputBatch
from streams.worker.pipeline import Pipeline, Wake
from streams.worker.shard import Shard
from streams.worker.standbys import StandbyStores
from tests.simulation.mutant import Tried, many_records, mutants
from tests.simulation.mutants_of_versions import forgotten_version
from tests.simulation.replacements import Function, always, by, constant, without, wrapped
from tests.worker_simulation import host, world
from tests.worker_simulation.assigning_coordinator import AssigningCoordinator
from tests.worker_simulation.committers import BEGIN, SimulatedTransactions
from tests.worker_simulation.group import NO_OFFSET, GroupCoordinator
from tests.worker_simulation.index_clients import SimulatedIndexAdmin
from tests.worker_simulation.member import SimulatedGroupMember
from tests.worker_simulation.network import NetworkFaults
from tests.worker_simulation.scenario import (
    Event,
    Fault,
    Releases,
    Theme,
    WorkerScenario,
    draw_events,
)
from tests.worker_simulation.world import WHOLE_WORKERS

# ---- scenarios


def drawn(
    events: Callable[[random.Random], list[Event]],
) -> Callable[[WorkerScenario], list[Event]]:
    """Return a change to events that the seed draws."""
    return lambda scenario: sorted(events(random.Random(scenario.seed)))


def faults_of(theme: Theme) -> Callable[[WorkerScenario], list[Event]]:
    return lambda scenario: sorted(
        draw_events(random.Random(scenario.seed), theme, scenario.produced_seconds)
    )


# ---- events

END: Final = "end a transaction"
OFFSETS: Final = "commit offsets in a transaction"

HELD_ENDS: Final = drawn(
    lambda rng: [
        Event(1.0 + each, Fault.HOLD, which=rng.random(), moment=END) for each in range(12)
    ]
)
"""Ends of transactions arrive during the next transactions."""

HELD_OFFSETS: Final = drawn(
    lambda rng: [
        Event(each / 2, Fault.HOLD, rng.choice([0.02, 0.1, 0.5]), rng.random(), moment=OFFSETS)
        for each in range(2, 30)
    ]
)
"""The group's offsets arrive again during the next transactions."""

JOINS: Final = drawn(
    lambda rng: [Event(4.0 + 6 * each + rng.uniform(0.0, 5.0), Fault.JOIN) for each in range(6)]
)
"""Workers keep joining."""

STANDS_STILL: Final = [
    Event(0.02, Fault.LOOP_PAUSE, 14.5, moment="append"),
    Event(2.8, Fault.LEAVE, 10.0, 0.9),
]
"""An event loop stands still while a partition leaves and comes back."""


def raw_losses_and(
    other: Callable[[random.Random, float], Event],
) -> Callable[[WorkerScenario], list[Event]]:
    """Let brokers lose raw records three times, each with another event at about that time."""

    def events(rng: random.Random) -> list[Event]:
        made = []
        for at in (3.0, 8.0, 13.0):
            seconds = rng.choice([0.05, 0.5, 2.0])
            made += [Event(at, Fault.RAW, seconds, rng.random()), other(rng, at)]
        return made

    return drawn(events)


RAW_RECORDS_LOST: Final = raw_losses_and(
    lambda rng, at: Event(at + rng.uniform(0, 2), Fault.KILL, 1.0, rng.random(), moment=BEGIN)
)
"""Brokers lose raw records, and workers are killed with some that are not committed."""

RAW_RECORDS_LOST_AND_PAUSES: Final = raw_losses_and(
    lambda rng, at: Event(at + rng.uniform(-1, 1), Fault.PAUSE, 14.0, rng.random(), moment="append")
)
"""Brokers lose raw records, and workers that have read them stand still."""

SLOW_COMMIT_WHILE_WORKERS_JOIN: Final = [
    Event(3.7, Fault.SILENCE, 0.4, 0.4, moment="add offsets"),
    Event(3.7, Fault.SILENCE, 12.6, 0.4, moment="open"),
    *(Event(at, Fault.JOIN) for at in (4.1, 8.4, 11.0)),
]
"""A commit takes longer than its worker may wait with a revocation, and more workers join."""

IDLE_MOVES: Final = drawn(
    lambda rng: [Event(at, Fault.STOP, 4.0, rng.random()) for at in (25.0, 45.0)]
)
"""Workers restart when there is nothing more to do."""

ZOMBIES_OF_POSITIONS: Final = drawn(
    lambda rng: [
        Event(at, Fault.PAUSE, rng.uniform(8.0, 12.0), rng.random(), moment=BEGIN)
        for at in (9.0, 10.0, 19.0, 20.0, 29.0, 39.0, 49.0)
    ]
)
"""Workers pause when they begin a commit, mostly one of positions only."""

ZOMBIES_IN_SENDS: Final = drawn(
    lambda rng: [
        Event(at + rng.uniform(0.0, 3.0), Fault.PAUSE, 12.0, rng.random(), moment="produce")
        for at in (2.0, 11.0, 20.0, 29.0, 38.0)
    ]
)
"""Workers pause while they send what they commit."""


def rolling(scenario: WorkerScenario) -> list[Event]:
    """Replace workers one by one, and kill one meanwhile."""
    replaced = [Event(6.0 + 9 * each, Fault.REPLACE) for each in range(scenario.workers)]
    return sorted([*replaced, Event(17.0, Fault.KILL, 1.0, 0.4)])


@drawn
def fenced_ends(rng: random.Random) -> list[Event]:
    """Let openings come late, while ends of transactions wait for their response."""
    events = []
    for at in (2.0, 12.0, 22.0):
        which = rng.random()
        events.append(Event(at, Fault.LOSSES, 3.0, which))
        events.append(Event(at + 2.0, Fault.SILENCE, 6.0, which, moment=END))
    return events


@drawn
def power_loss(rng: random.Random) -> list[Event]:
    """Let shards move, brokers forget it, and then the shards move again."""
    at, lost = rng.uniform(4.0, 10.0), rng.uniform(3.0, 8.0)
    loss = Event(at, Fault.POWER, lost, rng.random())
    moves = [at + rng.uniform(0.0, lost), *(at + lost + 7.0 * each for each in range(2, 6))]
    return [loss, *(Event(each, Fault.STOP, which=rng.random()) for each in moves)]


@drawn
def power_loss_of_last_commits(rng: random.Random) -> list[Event]:
    """Let brokers lose the last commits of a worker, and nothing of the log."""
    at = rng.uniform(1.5, 3.5)
    return [Event(at, Fault.PAUSE, 2.0, moment=BEGIN), Event(at + 1.0, Fault.POWER, 25.0)]


@drawn
def power_loss_of_appends(rng: random.Random) -> list[Event]:
    """Let brokers lose records of a leader that still waits for their response."""
    events = []
    for at in (3.0, 13.0, 23.0):
        events.append(Event(at, Fault.SILENCE, 3.0, moment="append"))
        events.append(Event(at + rng.uniform(-0.2, 0.2), Fault.POWER, 1.0))
    return events


@drawn
def slow_begin(rng: random.Random) -> list[Event]:
    """Let the first commit wait for a response, while others join."""
    joins = [Event(rng.uniform(0.05, 1.0), Fault.JOIN) for _ in range(2)]
    return [Event(0.1, Fault.SILENCE, rng.uniform(1.0, 5.0), moment="add offsets"), *joins]


# ---- groups


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


_ZOMBIES: Final = group_of(3, Theme.ZOMBIES)
_MOVES: Final = group_of(3, Theme.MOVES)
_LOSSES: Final = group_of(2, Theme.LOSSES, send_timeout_seconds=8.0)
_RAW_LOSSES: Final = group_of(
    2,
    Theme.MIXED,
    events=RAW_RECORDS_LOST,
    partitions=many_records(2, 100),
    born=2,
    again=[],
    archive=False,
    other_settings=False,
    delivery=Delivery.EXACTLY_ONCE,
    produced_seconds=15.0,
)
_OUTAGES: Final = group_of(2, Theme.OUTAGES, send_timeout_seconds=8.0)
_KILLS: Final = group_of(2, Theme.KILLS)
_ASSIGNED: Final[dict[str, Any]] = {
    "cluster": lambda scenario: replace(scenario.cluster, assigns=True),
    "static": False,
}
"""The broker assigns the partitions (``group_protocol=consumer``)."""
_CALM: Final = group_of(2, Theme.MIXED, events=[])
_UPGRADE: Final = group_of(
    3, Theme.MIXED, releases=Releases.BOTH, events=rolling, produced_seconds=40.0
)
_ARCHIVE: Final = group_of(
    2,
    Theme.MIXED,
    events=[],
    partitions=many_records(4, 400),
    born=4,
    produced_seconds=0.01,
    archive=True,
    late_documents=0,
    window=Window(200_000, 100_000),
    network=NetworkFaults(),
    cluster=lambda scenario: replace(
        scenario.cluster,
        delay_seconds=0.0,
        markers_seconds=0.005,
        slow_markers=0.0,
        keeps_last=False,
    ),
    other_settings=False,
    poll_seconds=0.005,
    batch_documents=8,
    in_flight=200,
)
_SILENCES: Final = group_of(2, Theme.SILENCES, send_timeout_seconds=8.0)
_SLOW_COMMITS: Final = group_of(2, Theme.SLOW_COMMITS, partitions=many_records(4, 100))
_SLOW_MARKERS: Final = {
    **_MOVES,
    "cluster": lambda scenario: replace(scenario.cluster, markers_seconds=5.5, slow_markers=1.0),
    "partitions": many_records(9, 300),
    "born": 9,
    "workers": 1,
    "produced_seconds": 40.0,
    "events": JOINS,
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
    events=[Event(0.0, Fault.KILL, 1.0, moment="produce")],
)
_LATE_PARTITION: Final = {
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
}


# ---- what stands in the place of a rule


def _known_shard(original: Function, shards: Assignment, partition: int, *rest: object) -> Shard:
    known = shards.shards.get(partition)
    shard: Shard = original(shards, partition, *rest) if known is None else known
    return shard


async def _in_a_task(original: Function, *arguments: object) -> None:
    """Close shards in a task, and so after what the member announces next."""
    await original(*arguments)


async def _only_outputs_have_offsets(
    original: Function, shards: Sequence[Any], *arguments: object
) -> OutputBatch:
    batch: OutputBatch = await original(shards, *arguments)
    with_outputs = {each.partition for each in shards if each.ready.outputs}
    for partition in batch.offsets.keys() - with_outputs:
        del batch.offsets[partition]
    return batch


def _with_reading_of_today(original: Function, intake: Intake, run: RawRecords) -> None:
    shard = intake._shards.get(run.partition)
    original(intake, run if shard is None else run._replace(reading=shard.number))


def _is_open(sender: BundleSender, run: RawRecords) -> bool:
    shard = sender._shards.get(run.partition)
    return shard is not None and shard.is_open


async def _waits_for_rebalance(_commits: OutputCommits, _error: FirstseenError) -> None:
    await asyncio.sleep(0.1)


async def _verified(commits: OutputCommits) -> bool:
    commits._failures, commits._is_verified = await commits._committer.failures(), True
    return True


async def _no_failures(_: AcknowledgedSends) -> int:
    return 0


async def _begin_at_once(shards: Assignment, new: Sequence[Shard]) -> None:
    """Do not take the position of shard 0."""
    shards._events.begin(shard for shard in new if shards._is_wanted(shard))


async def _begin_all(original: Function, shards: Assignment, new: Sequence[Shard]) -> None:
    is_first = any(each.partition == LEADING_SHARD for each in new)
    if is_first and await shards._index.claim() is None:
        shards._events.begin([each for each in new if shards._is_wanted(each)])
    else:
        await original(shards, new)


def _from_the_beginning(
    original: Function,
    shards: Assignment,
    stored: object,
    chain: Chain,
    cluster: Any,  # noqa: ANN401 - private to its module
) -> Progress:
    first: Progress = original(shards, stored, chain, cluster)
    if cluster.claim is not None:
        first = Progress(chain, 0, cluster.log_start, NO_CONTROL)
    return first


class _Furthest(dict[int, int]):
    """Positions; the furthest one is used as the lowest."""

    def values(self) -> Any:  # noqa: ANN401 - of dict
        return [max(super().values())]


async def _to_the_furthest(original: Function, leader: Leader, partitions: int) -> None:
    leader._positions = _Furthest(leader._positions)
    await original(leader, partitions)


async def _prepared_at_once(leader: Leader) -> None:
    leader._reads_reports = True


def _completed_at_once(store: ShardStore, _limit: int = 0) -> None:
    assert store._column is not None
    store._column.complete()
    store._unnoted = []


def _without_seek(look_up: LogLookUp, _offset: int) -> None:
    look_up._session += 1


def _ends_without_the_log(stream: ShardStream[Any], next_chain: int, _: int) -> None:
    stream._next_chain, stream.has_end = next_chain, True
    stream._note_output()


def _keeps_in_flight(intake: Intake, shard: Shard) -> None:
    intake._merge.remove(shard.queue)
    intake._turned_back.pop(shard, None)


_HOLDS_ALL: Final = always(SimulatedGroupMember, "holding", lambda: True)
"""A worker does not notice that it released partitions of a commit before the commit ended."""

MUTANTS: Final = mutants(
    WHOLE_WORKERS,
    {
        "a revocation that takes too long leaves its shards open, and they come back as they are": (
            Tried(
                (
                    by(Assignment, "revoked", lambda shards, _: shards._events.without([])),
                    wrapped(Assignment, "_assign", _known_shard),
                ),
                _MOVES,
            )
        ),
        "shards are closed in a task after a revocation, and so after their next assignment": Tried(
            wrapped(Pipeline, "revoked", _in_a_task),
            group_of(2, Theme.MIXED, events=STANDS_STILL, produced_seconds=3.0),
        ),
        "shards that are lost stay open": Tried(without(Assignment, "lost"), _ZOMBIES),
        "a partition whose timestamps are late has no turn beside a backlog": Tried(
            always(timestamp_merge.TimestampMerge, "_is_passed_over", False), _LATE_PARTITION
        ),
        "with a window, a worker does not wait for others": Tried(
            always(Alignment, "until_ms", None), _ARCHIVE
        ),
        "with a window, bundles have the documents of the first partitions": Tried(
            always(Participant, "_latest_to_send", None), _ARCHIVE
        ),
        "with a window, a worker reads an archive before all its shards are open": Tried(
            always(Alignment, "_is_opening", False), _ARCHIVE
        ),
        "with a window, nobody waits for shards that others open": Tried(
            always(Alignment, "_waits_for_others", False), _ARCHIVE
        ),
        "a commit without outputs has no offsets, and so no generation": Tried(
            wrapped(commit, "output_batch", _only_outputs_have_offsets),
            {
                **group_of(3, Theme.ZOMBIES, partitions=many_records(6, 40), produced_seconds=60.0),
                "events": ZOMBIES_OF_POSITIONS,
                "poll_seconds": 0.2,
            },
        ),
        "a client waits longer than a session before it connects again": Tried(
            constant(host, "AGAIN_SECONDS", (0.01, 12.0)), _OUTAGES
        ),
        "a report that was acknowledged and lost is never made again": Tried(
            always(LogLookUp, "is_report_lost", False), {**_CALM, "reports_lost": 0.3}
        ),
        "nobody knows who was in the group, and has left a transaction open": Tried(
            without(SimulatedIndexAdmin, "remember_members"), _FIRST_COMMITS
        ),
        "what workers that are gone have left open is not aborted": Tried(
            without(SimulatedIndexAdmin, "abort_left_open"), _FIRST_COMMITS
        ),
        "offsets in open transactions are taken for stable": Tried(
            by(
                GroupCoordinator,
                "fetch_offsets",
                lambda group, partitions: {
                    p: group.offsets[p].offset if p in group.offsets else NO_OFFSET
                    for p in partitions
                },
            ),
            _SLOW_MARKERS,
        ),
        "the coordinator takes commits of any generation": Tried(
            (without(GroupCoordinator, "_check_member"), _HOLDS_ALL), _SLOW_COMMITS
        ),
        "the coordinator takes commits of any epoch": Tried(
            (without(AssigningCoordinator, "_check_member"), _HOLDS_ALL),
            {**_SLOW_COMMITS, **_ASSIGNED},
        ),
        "a commit goes on after its partitions were released": Tried(
            _HOLDS_ALL,
            {
                **group_of(1, Theme.SLOW_COMMITS, partitions=many_records(4, 100), born=4),
                **_ASSIGNED,
                "events": SLOW_COMMIT_WHILE_WORKERS_JOIN,
                "produced_seconds": 20.0,
            },
        ),
        "the coordinator assigns what another member has not released": Tried(
            always(AssigningCoordinator, "_held_by_others", ()), {**_MOVES, **_ASSIGNED}
        ),
        "a worker commits with the epoch of its last rebalance": Tried(
            by(OutputCommits, "_note_stale", _waits_for_rebalance), {**_MOVES, **_ASSIGNED}
        ),
        "a store is taken as far as it can be read, not as far as the group has committed": Tried(
            wrapped(
                recovery,
                "catch_up",
                lambda original, store, log, identity, _, report: original(
                    store, log, identity, 0, report
                ),
            ),
            _SLOW_MARKERS,
        ),
        "a store is not brought up": Tried(always(recovery, "catch_up", 0), _KILLS),
        "the index is not filled from the store": Tried(
            always(assignment, "fill_index", ()), _MOVES
        ),
        "after a commit without an answer a worker goes on": Tried(
            without(Assignment, "reopen"), _SILENCES
        ),
        "a packet of which nothing is known is not sent again": Tried(
            by(BundleSender, "_appended", lambda _, _shards, _bundle, future: future.exception()),
            _SILENCES,
        ),
        "a leader waits for a control record that is not there": Tried(
            without(Participant, "control_failed"), _SILENCES
        ),
        "a new index begins with all shards of a worker": Tried(
            wrapped(Assignment, "_begin_new", _begin_all),
            {
                **group_of(1, Theme.MOVES, events=slow_begin, other_settings=True),
                "releases": Releases.OLDER,
                "cluster": lambda scenario: replace(scenario.cluster, keeps_last=True),
            },
        ),
        "a leader reads no reports after their topic was created again": Tried(
            without(Leader, "continue_after"),
            {**_CALM, "events": [Event(2.0, Fault.REPORTS)], "standbys": 0},
        ),
        "an owner that decided nothing leads again at once": Tried(
            always(Decider, "was_in_vain", False),
            {
                **group_of(3, Theme.MIXED, events=[Event(2.0, Fault.DEAF, 300.0)]),
                "standbys": 1,
                "other_settings": False,
            },
        ),
        "a leader reads no reports": Tried(by(Leader, "prepare", _prepared_at_once), _CALM),
        "a leader does not take its own reports": Tried(
            by(
                Leader,
                "take_report",
                lambda leader, report: leader._positions.update(report.positions),
            ),
            _CALM,
        ),
        "records that were read for an earlier shard are taken in": Tried(
            (
                always(SimulatedGroupMember, "_is_current", True),
                wrapped(Intake, "_put", _with_reading_of_today),
                by(BundleSender, "_is_current", _is_open),
            ),
            _SILENCES,
        ),
        "a raw topic that is created again is not noticed": Tried(
            without(Pipeline, "_look_at_topic"), {**_CALM, "again": many_records(4, 12)}
        ),
        "the changelog has no partition for one that was added": Tried(
            without(SimulatedIndexAdmin, "grow_changelog"),
            {**_CALM, "born": 2, "events": [Event(2.0, Fault.PARTITION)]},
        ),
        "a session goes on where the last one was": Tried(
            by(LogLookUp, "begin", _without_seek), _MOVES
        ),
        "the first progress of a shard is not committed": Tried(
            wrapped(
                Assignment,
                "_resume",
                lambda original, *arguments: original(*arguments) and False,
            ),
            {
                **group_of(
                    3, Theme.KILLS, partitions=many_records(6, 120), born=2, produced_seconds=30.0
                ),
                "events": [
                    Event(5.0, Fault.PARTITION),
                    Event(5.5, Fault.KILL, moment="add offsets"),
                    Event(7.5, Fault.KILL, which=0.4, moment="add offsets"),
                    Event(9.5, Fault.KILL, which=0.9, moment="add offsets"),
                ],
            },
        ),
        "a new shard reads the log from its beginning, beside control records that it lacks": Tried(
            (
                wrapped(Assignment, "_first_progress", _from_the_beginning),
                by(Assignment, "_begin_new", _begin_at_once),
            ),
            {
                **_CALM,
                "born": 1,
                "produced_seconds": 100.0,
                "events": [Event(90.0, Fault.PARTITION)],
            },
        ),
        "entries that are removed stay in the store": Tried(
            wrapped(
                ShardStore,
                "change",
                lambda original, store, entries, _removed=(), before=0: original(
                    store, entries, (), before
                ),
            ),
            {**_KILLS, "replaces": True},
        ),
        "a store is not looked up in for what it had when it was opened": Tried(
            by(ShardStore, "note_keys", _completed_at_once), {**_KILLS, "replaces": True}
        ),
        "a store that says it has read more of its changelog than it has is not rebuilt": Tried(
            (
                wrapped(
                    OutputCommits,
                    "_stored",
                    lambda original, commits, ready, ends: original(
                        commits, ready, {p: end + 3 for p, end in ends.items()}
                    ),
                ),
                always(Lineage, "continues", True),
            ),
            _KILLS,
        ),
        "a store is kept although its last commit is none of the changelog": Tried(
            always(Lineage, "continues", True), _POWER
        ),
        "a store is only ahead of progress that it reads": Tried(
            wrapped(
                recovery,
                "is_ahead",
                lambda original, before, last: last is not None and original(before, last),
            ),
            _POWER,
        ),
        "a control record counts that decides what brokers have lost": Tried(
            always(Replica, "_has_decided", True), _POWER_OF_APPENDS
        ),
        "at least once, nobody notices that brokers have failed": Tried(
            by(AcknowledgedSends, "failures", _no_failures),
            {**_POWER, "delivery": Delivery.AT_LEAST_ONCE},
        ),
        "a commit builds on records that brokers have lost": Tried(
            always(OutputCommits, "_checks_of", UNCHECKED), _POWER
        ),
        "after a transaction that failed, nobody looks for the commits before": Tried(
            by(OutputCommits, "_verify", _verified), _POWER_OF_APPENDS
        ),
        "an idle worker does not notice that brokers have failed": Tried(
            (
                without(OutputCommits, "_notice_failures"),
                # A repeated commit would notice it too, after minutes.
                constant(world, "_UNCHANGED_SECONDS", math.inf),
            ),
            group_of(1, Theme.MIXED, events=power_loss_of_last_commits, produced_seconds=3.0),
        ),
        "a producer keeps its epoch after a broken connection": Tried(
            always(SimulatedTransactions, "_needs_new_epoch", False),
            group_of(2, Theme.MIXED, network=NetworkFaults(), events=HELD_ENDS),
        ),
        "the group's offset stays behind if its coordinator has forgotten it": Tried(
            always(OutputCommits, "_repeats_progress", False),
            group_of(
                2,
                Theme.MIXED,
                network=NetworkFaults(),
                events=HELD_OFFSETS,
                cluster=lambda scenario: replace(
                    scenario.cluster, markers_seconds=0.3, forgets_pending=True
                ),
            ),
        ),
        "a commit that was fenced is taken for one that did not take place": Tried(
            always(SimulatedTransactions, "_fenced_end_is_unknown", False),
            {**_LOSSES, "workers": 1, "produced_seconds": 30.0, "events": fenced_ends},
        ),
        "a commit goes on although the broker no longer knows where its records are": Tried(
            without(SimulatedTransactions, "_unplaced"),
            group_of(3, Theme.MIXED, network=NetworkFaults(answer_lost=0.1)),
        ),
        "at least once, a record of the changelog counts wherever it stands": Tried(
            always(changelog_codec, "counts", True), _AT_LEAST_ONCE
        ),
        "at least once, records of several writers have the same keys": Tried(
            always(recovery, "token_bytes", bytes(WRITER_BYTES)),
            {**_AT_LEAST_ONCE, "compacts": True},
        ),
        "at least once, a worker goes on whose records are not where it expected them": Tried(
            always(commit, "_is_in_place", True), _AT_LEAST_ONCE
        ),
        "at least once, an idle shard does not notice late progress before it is compacted": Tried(
            constant(world, "_UNCHANGED_SECONDS", math.inf),
            group_of(
                2,
                Theme.ZOMBIES,
                events=ZOMBIES_IN_SENDS,
                delivery=Delivery.AT_LEAST_ONCE,
                compacts=True,
                partitions=many_records(1, 4),
                born=1,
                produced_seconds=6.0,
                verifier=None,
                window=None,
            ),
        ),
        "at least once, nobody hears who owns a shard that has moved without documents": Tried(
            always(OutputCommits, "_repeats_progress", False),
            group_of(
                2,
                Theme.MIXED,
                events=IDLE_MOVES,
                delivery=Delivery.AT_LEAST_ONCE,
                standbys=1,
                produced_seconds=3.0,
                releases=Releases.NEWER,
            ),
        ),
        "a partition that lost records keeps its chain": Tried(
            by(Chain, "after_loss", lambda chain: chain), _RAW_LOSSES
        ),
        "records are not compared with those in the log": Tried(
            always(Assignment, "_reads_as_before", False), _RAW_LOSSES
        ),
        "the end of a chain is not in the log": Tried(
            by(ShardStream, "end_chain", _ends_without_the_log),
            {**_RAW_LOSSES, "events": RAW_RECORDS_LOST_AND_PAUSES},
        ),
        "progress has no epoch": Tried(
            by(assignment, "RawOffset", lambda following, _: RawOffset(following)), _RAW_LOSSES
        ),
        "at least once, late progress of an earlier chain counts": Tried(
            always(Chain, "is_before", False),
            {
                **_RAW_LOSSES,
                "events": RAW_RECORDS_LOST_AND_PAUSES,
                "delivery": Delivery.AT_LEAST_ONCE,
            },
        ),
        "a former owner keeps its shard for ever": Tried(
            always(StandbyStores, "_is_replaced", False), {**_MOVES, "standbys": 0}
        ),
        "the log is trimmed to the furthest position, at once": Tried(
            (
                wrapped(Leader, "trim", _to_the_furthest),
                constant(decide, "_POSITION_SECONDS", 0.0),
            ),
            {**_KILLS, "produced_seconds": 60.0},
        ),
        "the protocol keeps shards that are closed": Tried(
            without(Participant, "drop_shard"), _MOVES
        ),
        "a worker takes in more than it may": Tried(
            without(Intake, "_check_limits"), {**_OUTAGES, "in_flight": 3, "poll_records": 50}
        ),
        "what a closed shard had in flight counts for ever": Tried(
            by(Intake, "end", _keeps_in_flight),
            {**_MOVES, "in_flight": 3, "batch_documents": 3},
        ),
        "a stage is woken once": Tried(without(Wake, "awake"), _CALM),
        "a shard is opened while its store is still in use": Tried(
            without(Shard, "released"), _SILENCES
        ),
        "a damaged store is not rebuilt": Tried(
            by(ShardStores, "_open_or_rebuild", lambda stores, each: stores._opened(each)), _KILLS
        ),
        "the version is raised before all members have reported that they read it": Tried(
            always(Readers, "check", True), _UPGRADE
        ),
        "the log is written in a version that is not in force yet": Tried(
            by(Participant, "version", lambda worker: worker.reads), _UPGRADE
        ),
        "the changelog is written in a version that is not in force yet": Tried(
            wrapped(
                commit,
                "output_batch",
                lambda original, *batch: original(*batch[:-1], versions.NEWEST),
            ),
            _UPGRADE,
        ),
        "a new leader forgets the version in force": Tried(
            wrapped(Decider, "first_record", forgotten_version),
            {**_UPGRADE, "releases": Releases.NEWER, "events": faults_of(Theme.KILLS)},
        ),
        "nobody says what it reads": Tried(without(LogLookUp, "report_news"), _UPGRADE),
        "a leader does not look who is in the group": Tried(
            without(Leader, "update_members"), _UPGRADE
        ),
    },
)
