"""One run: brokers, a cluster, a feed and faults, then the judgement."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from streams.kafka.clients import AdminClient
from streams.settings.loader import load_settings
from streams.settings.settings import GroupProtocol, Mode, Settings
from streams.topics.admin import create
from streams.topics.plans import topic_plans
from tests.torture.aftermath import aftermath, read_all
from tests.torture.broker_acts import PARTITIONS_MAX
from tests.torture.faults import LAST_AT, Fault, Tormentor, schedule, struck
from tests.torture.feed import Feed, FeedError
from tests.torture.history import History
from tests.torture.inspection import LogEnds, hung_transactions, lag
from tests.torture.judge import Findings, judge
from tests.torture.phases import phases
from tests.torture.plan import ARCHIVE, Plan, Times
from tests.torture.raw_topic import arrival, partition_count, raw_records
from tests.torture.stage import Stage, Struck, stage
from tests.torture.stalls import quiet_share, stalls_by_kind
from tests.torture.watch import (
    OUTPUT_PARTITIONS,
    NobodyWorksError,
    Recorder,
    RecorderError,
    StalledError,
    StallLimits,
    Watch,
    output_partitions,
)
from tests.torture.workers import Cluster

APPLICATION = "torture"
RAW_PARTITIONS = 4
WORKERS = 3
STALL_LIMITS = StallLimits(counted=120.0, raw=300.0)
REST_SECONDS = 30.0
NARRATE_SECONDS = 10.0
RECOVER_SECONDS = 90.0
MOMENT_SECONDS = 3.0  # a document waits for a commit, and then for the next look at the outputs
# Longer than the time in which an effect is attributed to a fault (``stalls``).
APART_SECONDS = 12.0
OPTIONS = (
    "delivery=exactly_once",
    # Above the time in which brokers notice that one of them is dead (``TWO_IN_SYNC``).
    "session_timeout_seconds=10",
    "index.same_id=replace",
    "fields.scope=scope",
)
WINDOW_OF_ARCHIVE = ("index.window=1d", "index.lateness=4h")
# So that entries expire during a run. In an archive workers wait for each other, and with a shorter
# lateness a live stream would be one after each stall.
WINDOW_OF_LIVE = ("index.window=60s", "index.lateness=120s")
LATE_MS_OF_LIVE = 150_000
OURS = (
    "kafka.reconnect.backoff.max.ms=100",
    # A reader that waits a minute for a silent broker would measure only its own wait.
    "kafka.socket.timeout.ms=3000",
    "kafka.topic.metadata.refresh.interval.ms=1000",
)


@dataclass(frozen=True)
class Order:
    minutes: float
    documents: int
    faults: int
    seed: int
    mode: Mode = Mode.SPLIT
    standbys: int = 1
    brokers: int = 1
    kinds: tuple[Fault, ...] = ()
    """The kinds of faults; by default all."""
    apart: bool = False
    protocol: GroupProtocol = GroupProtocol.CLASSIC
    archive: bool = False
    """Documents have times of an earlier year, one minute apart, and not the present."""

    @property
    def options(self) -> tuple[str, ...]:
        window = WINDOW_OF_ARCHIVE if self.archive else WINDOW_OF_LIVE
        chosen = (f"mode={self.mode}", f"standbys={self.standbys}")
        return (*OPTIONS, *window, *chosen, f"group_protocol={self.protocol}")

    @property
    def times(self) -> Times:
        if self.archive:
            return ARCHIVE
        return Times(
            int(time.time() * 1000), self.minutes * 60_000 / self.documents, LATE_MS_OF_LIVE
        )


@dataclass
class Report:
    order: Order
    faults: Counter[str]
    skipped: Counter[str]
    findings: Findings
    log: dict[str, int]
    longest_stall_seconds: float
    longest_counted_stall_seconds: float
    stalls_by_kind: dict[str, Any]
    phases: dict[str, Any]
    quiet_share: float
    expected_exits: Counter[str]
    unexpected_exits: list[str]
    seconds: float
    stalled: str = ""
    not_judged: str = ""
    """The reason why the run shows nothing about the workers."""

    @property
    def holds(self) -> bool:
        found = self.findings
        outputs = (found.lost, found.repeated, found.unknown, found.changed, found.out_of_order)
        verdicts = (found.near_uniques, found.ungrounded, found.other_than_one_reader)
        index = (found.wrong_tombstones, found.entries_other_than_uniques)
        unfinished = (self.log["left_undecided"], found.hung_transactions)
        brokers = (found.raw_other_than_sent,)
        given_up = (self.stalled, self.not_judged)
        exits = self.unexpected_exits
        return not any((*outputs, *verdicts, *index, *unfinished, *brokers, *given_up, exits))

    def as_json(self) -> dict[str, Any]:
        findings: dict[str, Any] = asdict(self.findings)
        if self.stalled or self.not_judged:
            findings["lost"] = None  # the run was given up, and they could still have come
        return {
            "brokers": self.order.brokers,
            "faults": self.faults.total(),
            "faults_by_kind": dict(sorted(self.faults.items())),
            "faults_skipped": dict(self.skipped),
            "documents": self.order.documents,
            **findings,
            **self.log,
            "longest_stall_seconds": round(self.longest_stall_seconds, 1),
            "longest_counted_stall_seconds": round(self.longest_counted_stall_seconds, 1),
            "stalls_by_kind": self.stalls_by_kind,
            "phases": self.phases,
            "quiet_share": round(self.quiet_share, 2),
            "expected_exits": dict(self.expected_exits),
            "unexpected_exits": self.unexpected_exits,
            "stalled": self.stalled,
            "not_judged": self.not_judged,
            "seed": self.order.seed,
            "mode": self.order.mode,
            "standbys": self.order.standbys,
            "apart": self.order.apart,
            "group_protocol": self.order.protocol,
            "archive": self.order.archive,
            "minutes": round(self.seconds / 60, 1),
        }


def torture(order: Order, directory: Path, narrate: Callable[[str], None]) -> Report:
    with stage(directory / "kafka", order.brokers) as brokers:
        flags = {"--broker": brokers.bootstrap_servers, "--application-id": APPLICATION}
        # The readers and the feed look for the brokers often; the workers as often as users'
        # workers.
        ours = (*order.options, *OURS)
        settings = load_settings(flags=flags, assignments=ours, environ={}).settings
        plans = topic_plans(settings, OUTPUT_PARTITIONS, RAW_PARTITIONS)
        create(AdminClient({"bootstrap.servers": brokers.bootstrap_servers}), plans)
        options = [part for flag in flags.items() for part in flag]
        for assignment in order.options:
            options += ["--set", assignment]
        cluster = Cluster(directory, options, brokers.network)
        try:
            return asyncio.run(_Run(order, settings, cluster, brokers, narrate).report())
        finally:
            cluster.kill_all()


class _Run:
    def __init__(
        self,
        order: Order,
        settings: Settings,
        cluster: Cluster,
        brokers: Stage,
        narrate: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._order = order
        self._cluster = cluster
        self._brokers = brokers
        self._narrate_line = narrate
        self._started = time.monotonic()
        self._seconds = order.minutes * 60
        rng = random.Random(order.seed)
        plan = Plan(rng.randrange(2**32), order.documents, PARTITIONS_MAX, order.times)
        self._feed = Feed(self._settings, plan, order.documents / self._seconds, RAW_PARTITIONS)
        self._watch = Watch(
            self._settings, self._feed, STALL_LIMITS, self._able_since, self._narrate
        )
        self._recorder = Recorder(self._settings)
        self._log_ends = LogEnds(self._settings)
        acts = brokers.acts(
            Struck(rng, settings, cluster, self._feed, self._log_ends, self._strikes)
        )
        if unknown := set(order.kinds) - acts.keys():
            raise ValueError(f"{', '.join(sorted(unknown))}: of three brokers only")
        kinds = [fault for fault in Fault if fault in (order.kinds or acts)]
        self._events = schedule(rng, order.faults, self._seconds, kinds)
        cluster.begins_older = any(each.fault is Fault.UPGRADE_WORKER for each in self._events)
        self._tormentor = Tormentor(acts)

    def _able_since(self) -> float:
        return max(self._cluster.able_since(), self._brokers.writable_since())

    async def report(self) -> Report:
        try:
            with self._recorder:
                return await self._report()
        finally:
            self._log_ends.close()

    async def _report(self) -> Report:
        stalled = not_judged = ""
        for _ in range(WORKERS):
            self._cluster.add()
        background = [
            asyncio.create_task(each)
            for each in (self._watch.run(), self._cluster.supervise(), self._print_progress())
        ]
        try:
            await _with(background, self._all_decided())
        except StalledError as error:
            stalled = str(error)
        except (NobodyWorksError, FeedError, RecorderError) as error:
            not_judged = str(error)
        finally:
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
        try:
            await asyncio.to_thread(self._brokers.heal)
        except AssertionError as error:
            not_judged = not_judged or f"the brokers did not come back: {error}"
        if stalled or not_judged:
            self._narrate(f"given up: {stalled or not_judged}")
            self._narrate(lag(self._settings, self._feed.partitions, self._recorder.history))
            self._narrate(self._cluster.logs())
        self._narrate("all workers are stopped")
        await self._cluster.stop_all()
        return self._judged(stalled, not_judged)

    async def _all_decided(self) -> None:
        """Feed with faults, then wait until every document has an output and the log is idle."""
        await asyncio.gather(self._feed.run(), self._torment())
        self._narrate("all is sent, and all faults are over")
        self._watch.expect((await asyncio.to_thread(raw_records, self._settings)).keys())
        while self._watch.waiting:  # noqa: ASYNC110 - the watch looks at topics, and so must poll
            await asyncio.sleep(0.5)
        self._narrate("every document has an output")
        deadline = time.monotonic() + REST_SECONDS
        while time.monotonic() < deadline:
            history = await asyncio.to_thread(self._recorder.finish)
            if not history.undecided:
                return
            await asyncio.sleep(1.0)

    async def _torment(self) -> None:
        if not self._order.apart:
            await self._tormentor.run(self._events)
            return
        ends = time.monotonic() + LAST_AT * self._seconds
        faults = [event.fault for event in self._events]
        await self._tormentor.run_apart(faults, ends, self._recovered)

    async def _recovered(self) -> None:
        """Wait until no document waits for longer than a moment, before and after quiet seconds.

        At the start none waits, although the workers do not run yet: after these seconds many do.
        """
        deadline = time.monotonic() + RECOVER_SECONDS
        a_moment = max(20.0, MOMENT_SECONDS * self._order.documents / self._seconds)
        for seconds in (APART_SECONDS, 0.0):
            while self._watch.waiting > a_moment and time.monotonic() < deadline:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.5)
            await asyncio.sleep(seconds)

    def _judged(self, stalled: str, not_judged: str) -> Report:
        self._narrate("judging")
        history, findings = self._recorder.history, Findings()
        try:
            history = self._recorder.finish()
            findings = self._findings(history, complete=not (stalled or not_judged))
        except RecorderError as error:
            not_judged = str(error)
        return Report(
            order=self._order,
            faults=Counter({str(fault): n for fault, n in self._tormentor.done.items()}),
            skipped=self._tormentor.skipped,
            findings=findings,
            log={
                "raw_partitions": self._feed.partitions,
                "packets": history.packets,
                "packets_skipped": history.packets_skipped,
                "reigns": history.reigns,
                "controls_refused": history.controls_refused,
                "left_undecided": len(history.undecided),
                "log_trimmed_to": self._log_ends.start(),
            },
            longest_stall_seconds=self._watch.longest_stall_seconds,
            longest_counted_stall_seconds=self._watch.longest_counted_seconds,
            stalls_by_kind=stalls_by_kind(self._tormentor.strikes, self._watch.stalls),
            phases=phases(
                [machine.worker.log_text() for machine in self._cluster.machines],
                self._tormentor.strikes,
                time.time() - time.monotonic(),
            ),
            quiet_share=quiet_share(self._tormentor.strikes),
            expected_exits=self._cluster.expected_exits,
            unexpected_exits=self._cluster.unexpected_exits,
            seconds=time.monotonic() - self._started,
            stalled=stalled,
            not_judged=not_judged,
        )

    def _findings(self, history: History, *, complete: bool) -> Findings:
        hung = [str(each) for each in hung_transactions(self._settings)]
        outputs = read_all(self._settings, output_partitions(self._settings))
        feed, arrived = self._feed, raw_records(self._settings)
        shards = partition_count(self._settings, self._settings.topics.changelog)
        findings = judge(
            self._settings,
            arrived,
            outputs,
            history,
            aftermath(self._settings, shards),
            complete=complete,
        )
        unacknowledged, wrong = arrival(feed.sent, feed.acknowledged, arrived, feed.unplaced)
        findings.unacknowledged = findings.note("unacknowledged", list(map(str, unacknowledged)))
        findings.raw_other_than_sent = findings.note("raw topic", wrong)
        findings.hung_transactions = findings.note("hung transactions", hung)
        return findings

    async def _print_progress(self) -> None:
        while True:
            await asyncio.sleep(NARRATE_SECONDS)
            self._recorder.check()
            self._narrate(
                f"{self._feed.arrived} sent, {self._watch.waiting} waiting, longest "
                f"stall {self._watch.longest_stall_seconds:.1f} s, "
                f"{len(self._cluster.unexpected_exits)} unexpected exits"
            )

    def _strikes(self, line: str) -> None:
        struck()
        self._narrate(line)

    def _narrate(self, line: str) -> None:
        self._narrate_line(f"{time.monotonic() - self._started:6.1f} s  {line}")


async def _with(background: list[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
    """Do ``work``; if a background task fails, end it and raise the task's error."""
    main = asyncio.create_task(work)
    done, _ = await asyncio.wait([main, *background], return_when=asyncio.FIRST_COMPLETED)
    if main not in done:
        main.cancel()
        with suppress(asyncio.CancelledError):
            await main
    for task in done:
        task.result()
