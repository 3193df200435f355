"""Draws a scenario of whole workers: documents, partitions, workers, delays, and faults."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from simhash_core.window import Window
from streams.settings.settings import Delivery
from tests.simulation.documents import (
    SCHEMES,
    SHINGLES,
    TOY,
    Families,
    SimulatedDocument,
    with_mean,
    with_triples,
)
from tests.simulation.scenario import IndexScenario, draw_records
from tests.worker_simulation.cluster import ClusterLimits
from tests.worker_simulation.network import NetworkFaults

SESSION_SECONDS: Final = 6.0


class Fault(StrEnum):
    """A fault, or a planned change."""

    KILL = "a worker is killed, and starts again"
    STOP = "a worker is stopped, and starts again"
    LEAVE = "a worker is stopped for good"
    JOIN = "a worker joins"
    PAUSE = "a process stands still"
    LOOP_PAUSE = "an event loop stands still"
    CUT = "a worker is cut off"
    AWAY = "the brokers are away"
    SLOW_STORES = "stores are slow to open"
    LOSSES = "requests and answers are lost, or late"
    SILENCE = "requests of one kind get no answer"
    HOLD = "a request is held, and arrives in the next transaction"
    CLOCK = "a clock jumps"
    PARTITION = "a partition is added"
    REPLACE = "a worker is replaced by one of the other release"
    POWER = "the brokers lose power, and what they had not written to their disks"
    REPORTS = "the reports topic is deleted and created again"
    RAW = "the brokers lose the last records of a raw partition"
    DEAF = "the owner of the leading shard receives no reports"


class StoreFate(StrEnum):
    """What a worker finds on its disk when it starts again."""

    KEPT = "as it was"
    OLDER = "an older copy"
    EMPTY = "empty"
    DAMAGED = "damaged"
    SHORT = "less than was written"


class Releases(StrEnum):
    OLDER = "the older one"
    NEWER = "the newer one"
    BOTH = "first the older one"


class Event(NamedTuple):
    """A fault at a time; ``which``, from 0 to 1, says which worker it strikes.

    ``moment`` names the request at which it happens, if the worker soon sends such a request, or
    which gets no response; "" for none.
    """

    at: float
    fault: Fault
    seconds: float = 0.0
    which: float = 0.0
    fate: StoreFate = StoreFate.KEPT
    moment: str = ""


MOMENTS: Final = (
    "begin a commit",
    "add offsets",
    "produce",
    "produce",
    "end a transaction",
    "commit offsets in a transaction",
    "add partitions",
    "offset commit",
    "append",
    "offset fetch",
    "read claim",
    "open",
    "join",
    "sync",
)


HELD_MOMENTS: Final = (
    "end a transaction",
    "end a transaction",
    "end a transaction",
    "abort a transaction",
    "produce",
    "add partitions",
    "add offsets",
    "commit offsets in a transaction",
)
"""Requests that can be held; for workers at least once, these only concern their records."""
_HELD_SHARE: Final = 0.1
_COMPACTED_SHARE: Final = 0.3
_POWER_SHARE: Final = 0.1
_REPORTS_SHARE: Final = 0.1
_RAW_SHARE: Final = 0.15
_NOT_AGAIN_SHARE: Final = 0.5
_DEAF_SHARE: Final = 0.15
_DEAF_SECONDS: Final = 300.0  # longer than all may take once the other faults are over
_OTHERS_SHARE: Final = 0.1
_ARCHIVE_SHARE: Final = 0.1
_ASSIGNS_SHARE: Final = 0.25
_DRAWN_SEPARATELY: Final = frozenset(
    {
        *(Fault.PARTITION, Fault.REPLACE, Fault.HOLD, Fault.POWER, Fault.RAW),
        *(Fault.REPORTS, Fault.DEAF),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerScenario(IndexScenario):
    """One run.

    Partitions above ``born`` are added later. ``again``: the records of the topic that is created
    under the same name when the first is drained; empty: no topic is created. ``produced_seconds``:
    how long records are produced. ``settled_seconds``: the maximum time from the last fault until
    everything is output. ``transaction_seconds``: the time after which the broker aborts a
    transaction; None: a session. ``late_partition``: the partition with timestamps a day ahead;
    None: there is none. ``fair_records``: how many records of other partitions may be output while
    a partition with records has no output; 0: any number. ``poll_seconds``: the maximum time until
    a member notices a rebalance, except once in ten times. ``reports_lost``: the probability that
    an acknowledged report is never read. ``counted``: steps of event loops take time by the
    functions that they call, and have a limit. ``releases``: the releases of the workers; with two,
    they begin with the older one and end with the newer one. ``compacts``: the changelog is
    compacted while workers run. ``archive``: records and documents have the times of an archive.
    ``late_documents``: how many documents may come later than the lateness; None: any number.
    """

    born: int
    again: list[list[SimulatedDocument | None]]
    workers: int
    delivery: Delivery
    static: bool
    standbys: int
    produced_seconds: float
    settled_seconds: float
    batch_documents: int
    batch_bundles: int
    poll_records: int
    in_flight: int
    output_partitions: int
    send_timeout_seconds: float
    reports_lost: float
    poll_seconds: float
    clocks: list[float]
    cluster: ClusterLimits
    network: NetworkFaults
    losses: NetworkFaults
    events: list[Event] = field(default_factory=list)
    counted: bool = False
    transaction_seconds: float | None = None
    late_partition: int | None = None
    fair_records: int = 0
    releases: Releases = Releases.OLDER
    compacts: bool = False
    other_settings: bool = False
    archive: bool = False
    late_documents: int | None = None


def draw_worker_scenario(seed: int) -> WorkerScenario:
    rng = random.Random(seed)
    scheme = with_triples(seed, rng.choice(SCHEMES))
    verifier = rng.choice([None, None, TOY, TOY if scheme.bands else SHINGLES])
    families = Families(rng, scheme, verifier)
    count = rng.choice([1, 2, 2, 3, 4, 6])
    records = draw_records(rng, families, count, rng.choice([10, 30, 60, 120]))
    again = draw_records(rng, families, count, rng.randint(4, 20)) if rng.random() < 0.1 else []
    born = count if rng.random() < 0.8 or again else rng.randint(1, count)
    workers = rng.choice([1, 2, 2, 3, 5])
    produced_seconds = rng.choice([3.0, 10.0, 30.0])
    quiet = rng.random() < 0.1
    theme = rng.choice([Theme.MIXED, Theme.MIXED, Theme.MIXED, *Theme])
    events = [] if quiet else draw_events(rng, theme, produced_seconds)
    if born < count:
        at = rng.uniform(1.0, produced_seconds)
        events.append(Event(at, Fault.PARTITION, which=rng.random()))
    if not quiet:
        events += draw_held(seed, produced_seconds)
        events += draw_reports(seed, produced_seconds)
    # This is drawn separately, so that all other values of a seed stay the same.
    releases = random.Random(~seed).choice([*Releases])
    if releases is Releases.BOTH:
        events += draw_replacements(random.Random(~seed), workers, produced_seconds)
    assigns = random.Random(f"members {seed}").random() < _ASSIGNS_SHARE
    others = random.Random(f"others {seed}").random() < _OTHERS_SHARE
    others = others and releases is Releases.OLDER
    events.sort()
    scenario = WorkerScenario(
        seed=seed,
        scheme=scheme,
        verifier=with_mean(seed, scheme, verifier),
        window=_window(rng),
        replaces=rng.random() < 0.3,
        partitions=records,
        born=born,
        again=again,
        workers=workers,
        delivery=Delivery.EXACTLY_ONCE if rng.random() < 0.75 else Delivery.AT_LEAST_ONCE,
        static=rng.random() < 0.25 and not assigns,
        standbys=random.Random(f"{seed} standbys").choice([0, 0, 1, 1, 2]),
        produced_seconds=produced_seconds,
        settled_seconds=150.0,
        batch_documents=rng.choice([1, 3, 20]),
        batch_bundles=rng.choice([1, 3, 8]),
        poll_records=rng.choice([1, 5, 50]),
        in_flight=rng.choice([3, 20, 4_000]),
        output_partitions=rng.choice([1, 3]),
        send_timeout_seconds=rng.choice([8.0, 30.0]),
        poll_seconds=rng.choice([0.005, 0.2]),
        reports_lost=rng.choice([0.0, 0.0, 0.02]),
        clocks=[rng.choice([0.0, 0.0, rng.uniform(-30, 30)]) for _ in range(16)],
        cluster=ClusterLimits(
            session_seconds=SESSION_SECONDS,
            delay_seconds=rng.choice([0.0, 0.5]),
            markers_seconds=rng.choice([0.005, 0.3, 3.0]),
            slow_markers=rng.choice([0.0, 0.2]),
            keeps_last=others,
            assigns=assigns,
            forgets_pending=random.Random(f"pending {seed}").random() < 0.5,
        ),
        network=NetworkFaults(
            lost=rng.choice([0.0, 0.0, 0.005]),
            answer_lost=rng.choice([0.0, 0.0, 0.005]),
            late=rng.choice([0.0, 0.0, 0.005]),
            slow=rng.choice([0.0, 0.02]),
        ),
        losses=NetworkFaults(lost=0.1, answer_lost=0.15, late=0.15, slow=0.1, late_seconds=8.0),
        events=events,
        counted=rng.random() < 0.1,
        memtable=rng.choice([4, 16, 512]),
        forgotten=rng.choice([2, 1024]),
        compared=rng.choice([2, 1024]),
        releases=releases,
        compacts=random.Random(f"compacted {seed}").random() < _COMPACTED_SHARE,
        other_settings=others,
        archive=random.Random(f"archive {seed}").random() < _ARCHIVE_SHARE,
    )
    if not quiet and may_lose_power(scenario) and not scenario.other_settings:
        events += draw_power(seed, produced_seconds)
    if may_lose_raw_records(scenario):
        events += draw_raw_losses(seed, produced_seconds)
    if may_be_deaf(scenario) and not quiet:
        events += draw_deaf(seed, produced_seconds)
    events.sort()
    return scenario


def may_lose_power(scenario: WorkerScenario) -> bool:
    """Return whether workers are to survive that brokers lose what they had acknowledged.

    At least once, an output that was sent cannot be taken back. With a second version, one that was
    in force may be lost.
    """
    exactly = scenario.delivery is Delivery.EXACTLY_ONCE
    return exactly and scenario.releases is Releases.OLDER


def may_lose_raw_records(scenario: WorkerScenario) -> bool:
    """Return whether raw records may be lost, and others may get their offsets.

    The judge follows one loss of records at a time.
    """
    has_power = any(each.fault is Fault.POWER for each in scenario.events)
    return not (has_power or scenario.archive or scenario.again)


def sends_others_after_power(scenario: WorkerScenario) -> bool:
    """Return whether raw records that were lost with power are not all sent again, and in order."""
    rng = random.Random(f"lost with power {scenario.seed}")
    return rng.random() < _NOT_AGAIN_SHARE and not (scenario.archive or scenario.again)


def draw_raw_losses(seed: int, seconds: float) -> list[Event]:
    """Return losses of the raw records of some ``seconds``; a few seeds have some."""
    # This is drawn separately, so that all other values of a seed stay the same.
    rng = random.Random(f"raw {seed}")
    if rng.random() >= _RAW_SHARE:
        return []
    return [
        Event(
            rng.uniform(0.5, seconds),
            Fault.RAW,
            rng.choice([0.02, 0.3, 2.0, 12.0]) * rng.uniform(0.5, 1.5),
            rng.random(),
        )
        for _ in range(rng.choice([1, 1, 2, 3]))
    ]


def may_be_deaf(scenario: WorkerScenario) -> bool:
    """Return whether all goes on although the owner of the leading shard receives no reports.

    Another worker must have a standby of that shard, and so the same settings. Such a leader cannot
    raise the version, and without documents no other leads.
    """
    same = scenario.releases is Releases.OLDER and not scenario.other_settings
    return bool(scenario.standbys) and same


def draw_power(seed: int, seconds: float) -> list[Event]:
    """Return losses of power; a few seeds have some. ``seconds`` of records are lost."""
    # This is drawn separately, so that all other values of a seed stay the same.
    rng = random.Random(f"power {seed}")
    if rng.random() >= _POWER_SHARE:
        return []
    return [
        Event(
            rng.uniform(0.5, seconds + 8.0),
            Fault.POWER,
            rng.choice([0.02, 0.3, 2.0, 12.0]) * rng.uniform(0.5, 1.5),
            rng.random(),
        )
        for _ in range(rng.choice([1, 1, 1, 2]))
    ]


def draw_held(seed: int, seconds: float) -> list[Event]:
    """Return requests of transactions that arrive late (KIP-890); one seed in ten has some."""
    # This is drawn separately, so that all other values of a seed stay the same.
    rng = random.Random(f"held {seed}")
    if rng.random() >= _HELD_SHARE:
        return []
    return [
        Event(
            rng.uniform(0.5, seconds + 5.0),
            Fault.HOLD,
            rng.choice([0.0, 0.5, 3.0]) * rng.uniform(0.8, 1.2),
            rng.random(),
            moment=rng.choice(HELD_MOMENTS),
        )
        for _ in range(rng.randint(1, 8))
    ]


def draw_reports(seed: int, seconds: float) -> list[Event]:
    """Return times at which people replace the reports topic; one seed in ten has some."""
    # This is drawn separately, so that all other values of a seed stay the same.
    rng = random.Random(f"reports {seed}")
    if rng.random() >= _REPORTS_SHARE:
        return []
    times = [rng.uniform(0.5, seconds + 5.0) for _ in range(rng.randint(1, 4))]
    return [Event(at, Fault.REPORTS) for at in times]


def draw_deaf(seed: int, seconds: float) -> list[Event]:
    """Return a time from which on a leader gets no reports; a standby of its shard can lead."""
    # This is drawn separately, so that all other values of a seed stay the same.
    rng = random.Random(f"deaf {seed}")
    if rng.random() >= _DEAF_SHARE:
        return []
    return [Event(rng.uniform(0.5, seconds), Fault.DEAF, _DEAF_SECONDS)]


def draw_replacements(rng: random.Random, workers: int, seconds: float) -> list[Event]:
    """Replace all workers one by one, or any at any time; then some more of either kind.

    One in three of the later ones is of the older release, even if the version was raised.
    """
    events = []
    if rng.random() < 0.5:
        times = itertools.accumulate(rng.uniform(0.5, 4.0) for _ in range(workers))
        events = [Event(at, Fault.REPLACE) for at in times]
    for _ in range(rng.randint(0, 2 * workers)):
        at, goes_back = rng.uniform(1.0, seconds + 10.0), rng.choice([0.0, 0.0, 1.0])
        events.append(Event(at, Fault.REPLACE, goes_back, rng.random()))
    return events


class Theme(StrEnum):
    """A sequence of faults that belong together."""

    MIXED = "some kinds of faults"
    ZOMBIES = "processes stand still in a commit, and wake when others have their shards"
    MOVES = "workers join and leave, and stores are slow to open"
    OUTAGES = "the brokers are away for longer than a session"
    LOSSES = "many requests and answers are lost, or late"
    SILENCES = "brokers that do one thing for a worker do not answer it"
    SLOW_COMMITS = "commits take longer than a rebalance waits for them"
    KILLS = "workers are killed in all that they do, and find other stores"


_COMMIT_MOMENTS: Final = (
    "begin a commit",
    "begin a commit",
    "add offsets",
    "produce",
    "produce",
    "end a transaction",
    "commit offsets in a transaction",
    "offset commit",
)


def draw_events(rng: random.Random, theme: Theme, produced_seconds: float) -> list[Event]:
    if theme is Theme.MIXED:
        return _mixed(rng, produced_seconds)
    early, late = 1.0, max(4.0, produced_seconds)

    def at(fault: Fault, seconds: tuple[float, float], moments: Sequence[str] = ("",)) -> Event:
        return Event(
            rng.uniform(early, late),
            fault,
            rng.uniform(*seconds),
            rng.random(),
            rng.choice(list(StoreFate)),
            rng.choice(moments),
        )

    session = SESSION_SECONDS
    match theme:
        case Theme.ZOMBIES:
            events = [at(Fault.PAUSE, (session + 1, 15.0), _COMMIT_MOMENTS) for _ in range(4)]
            early, late = late, late + 20.0
            events += [at(Fault.KILL, (1.0, 1.0)) for _ in range(2)]
        case Theme.MOVES:
            kinds = (Fault.JOIN, Fault.LEAVE, Fault.STOP, Fault.SLOW_STORES, Fault.JOIN)
            events = [at(rng.choice(kinds), (1.0, 8.0)) for _ in range(rng.randint(3, 8))]
        case Theme.OUTAGES:
            events = [at(Fault.AWAY, (2.0, 16.0)) for _ in range(3)]
        case Theme.SLOW_COMMITS:
            events = []
            for _ in range(3):
                begins, which = rng.uniform(early, late), rng.choice([0.0, 0.4])
                adding, opening = rng.uniform(0.1, 1.0), rng.uniform(10.0, 25.0)
                events += [
                    Event(begins, Fault.SILENCE, adding, which, moment="add offsets"),
                    Event(begins, Fault.SILENCE, opening, which, moment="open"),
                    Event(begins + rng.uniform(0.0, 2.0), Fault.JOIN, which=which),
                ]
        case Theme.SILENCES:
            moments = ("end a transaction", "produce", "append", "offset commit", "add partitions")
            events = [at(Fault.SILENCE, (3.0, 20.0), moments) for _ in range(4)]
        case Theme.LOSSES:
            events = [at(Fault.LOSSES, (2.0, 15.0)) for _ in range(3)]
            events += [at(Fault.KILL, (1.0, 1.0)) for _ in range(rng.randint(0, 1))]
        case _:
            events = [at(Fault.KILL, (1.0, 1.0), MOMENTS) for _ in range(rng.randint(2, 6))]
    return events


def _mixed(rng: random.Random, produced_seconds: float) -> list[Event]:
    kinds = [fault for fault in Fault if fault not in _DRAWN_SEPARATELY]
    chosen = rng.sample(kinds, rng.randint(1, 4))
    events = []
    for _ in range(rng.choice([1, 2, 4, 8])):
        fault = rng.choice(chosen)
        seconds = rng.choice([0.2, 2.0, SESSION_SECONDS - 1, SESSION_SECONDS + 3, 15.0])
        events.append(
            Event(
                rng.uniform(0.0, produced_seconds + 5.0),
                fault,
                seconds * rng.uniform(0.8, 1.2),
                rng.random(),
                rng.choice(list(StoreFate)),
                rng.choice(MOMENTS) if rng.random() < 0.6 else "",
            )
        )
    return events


def _window(rng: random.Random) -> Window | None:
    if rng.random() < 0.6:
        return None
    return Window(rng.choice([40, 150, 400]), rng.choice([0, 60, 300]))
