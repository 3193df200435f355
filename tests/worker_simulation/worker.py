"""One simulated worker: the real pipeline, with its stages as tasks and simulated clients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from prometheus_client import CollectorRegistry

from simhash_core.log import versions
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.verdicts import Rejection
from streams.documents.fields import FieldSettings
from streams.kafka.producers import AcknowledgedSends
from streams.monitoring.metrics import Metrics
from streams.settings.settings import (
    BatchSettings,
    Delivery,
    InFlightSettings,
    IntakeSettings,
    Settings,
)
from streams.store.rocksdb_store import MIB
from streams.worker.clients import OutputCommitter, WorkerClients
from streams.worker.context import Observers
from streams.worker.fingerprint import PendingRecord
from streams.worker.outputs import OutputRules
from streams.worker.pipeline import Pipeline
from tests.rigs.memory_rows import MemoryDisk
from tests.worker_simulation.assigned_member import AssignedGroupMember
from tests.worker_simulation.cluster import Cluster
from tests.worker_simulation.committers import SimulatedSends, SimulatedTransactions
from tests.worker_simulation.documents import IDENTITY, READING
from tests.worker_simulation.host import Host
from tests.worker_simulation.index_clients import (
    SimulatedFollower,
    SimulatedIndexAdmin,
    SimulatedStores,
    owners_of,
)
from tests.worker_simulation.log_clients import SimulatedAppender, SimulatedReader
from tests.worker_simulation.loop import Machine
from tests.worker_simulation.member import SimulatedGroupMember
from tests.worker_simulation.scenario import WorkerScenario

_TICK_SECONDS: Final = 1.0
STATE: Final = Path("/simulated")


def settings_of(scenario: WorkerScenario, instance_id: str | None = None) -> Settings:
    return Settings(
        application_id="simulated",
        delivery=scenario.delivery,
        session_timeout_seconds=scenario.cluster.session_seconds,
        send_timeout_seconds=scenario.send_timeout_seconds,
        standbys=scenario.standbys,
        group_instance_id=instance_id,
        state_dir=STATE,
        block_cache_bytes=MIB,
        fields=FieldSettings(scope="scope"),
        batch=BatchSettings(documents=scenario.batch_documents, bundles=scenario.batch_bundles),
        intake=IntakeSettings(idle_ms=20),
        in_flight=InFlightSettings(documents=scenario.in_flight),
    )


class _Channel:
    """Has at most one event, like Faust's channels for the stages."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    async def send(self, *, value: object) -> None:  # noqa: ARG002 - an event only wakes the stage
        self._event.set()

    async def get(self) -> None:
        await self._event.wait()
        self._event.clear()


class _Observer:
    """Gets all outputs and ignores them."""

    def note(self, outputs: Sequence[PendingRecord], now_ms: int) -> None:
        pass

    def note_rejections(self, rejections: Sequence[Rejection], now_ms: int) -> None:
        pass


_METRICS: dict[str, Metrics] = {}


def _metrics_of(name: str) -> Metrics:
    """Return the metrics of a worker; cached, as creating them takes longer than a short run."""
    if name not in _METRICS:
        _METRICS[name] = Metrics(CollectorRegistry())
    return _METRICS[name]


@dataclass(slots=True)
class Place:
    """The machine and disk of a worker, which stay from one life to the next.

    ``slow_until``: until then stores open slowly. ``reads``: the newest version that its release
    reads.
    """

    name: str
    disk: MemoryDisk
    instance_id: str | None
    clock_seconds: float = 0.0
    slow_until: float = 0.0
    reads: int = versions.OLDEST
    identity: str = IDENTITY
    copies: list[MemoryDisk] = field(default_factory=list)


class Worker:
    def __init__(
        self,
        place: Place,
        life: int,
        scenario: WorkerScenario,
        cluster: Cluster,
        fingerprinter: Fingerprinter,
        on_failure: Callable[[Worker, BaseException], None],
    ) -> None:
        self.place = place
        self.reads = place.reads
        self.name = place.instance_id or f"{place.name}.{life}"
        self.machine = Machine(cluster.loop, self.name, place.clock_seconds)
        self.stopped = False
        self.is_open = False
        self._cluster = cluster
        self._on_failure = on_failure
        self._host = Host(self.machine, cluster)
        self.machine.program.context.run(self._build, scenario, fingerprinter)

    def _build(self, scenario: WorkerScenario, fingerprinter: Fingerprinter) -> None:
        place, host = self.place, self._host
        settings = settings_of(scenario, place.instance_id)
        topics = settings.topics
        writer = self.writer = f"{settings.application_id}.{self.name}"
        metrics = _metrics_of(place.name)
        assigned = scenario.cluster.assigns
        member = (AssignedGroupMember if assigned else SimulatedGroupMember)(
            host,
            topics.raw,
            client_id=writer,
            instance_id=place.instance_id,
            poll_records=scenario.poll_records,
            poll_seconds=scenario.poll_seconds,
        )
        committer: OutputCommitter
        if scenario.delivery is Delivery.EXACTLY_ONCE:
            committer = SimulatedTransactions(
                host,
                writer,
                changelog_topic=topics.changelog,
                timeout_seconds=scenario.transaction_seconds or settings.session_timeout_seconds,
                answer_seconds=settings.send_timeout_seconds,
            )
        else:
            client = SimulatedSends(
                host,
                changelog_topic=topics.changelog,
                answer_seconds=settings.send_timeout_seconds,
            )
            committer = AcknowledgedSends(client, member.commit, changelog_topic=topics.changelog)
        batch = scenario.poll_records
        clients = WorkerClients(
            member,
            SimulatedReader(host, topics.log, batch_records=batch),
            SimulatedReader(host, topics.reports, batch_records=batch),
            SimulatedAppender(host, message_seconds=settings.send_timeout_seconds),
            committer,
            SimulatedIndexAdmin(host, settings, place.identity, writer, place.reads),
            SimulatedStores(
                host,
                settings,
                place.identity,
                fingerprinter.profile,
                metrics,
                place.disk,
                self._slowness,
                place.reads,
            ),
            lambda deliver: SimulatedFollower(host, topics.changelog, deliver),
            lambda: owners_of(host, settings, writer),
        )
        rules = OutputRules(
            place.identity,
            READING,
            writer,
            scenario.scheme.bits,
            topics,
            include_body=False,
            application=settings.application_id,
            replaces_expired=fingerprinter.profile.replaces_expired,
        )
        channels = [_Channel() for _ in range(4)]
        self.pipeline = Pipeline(
            settings,
            fingerprinter,
            rules,
            Observers(metrics, _Observer(), lambda _: None),
            clients,
            channels,
            self._fail,
            reads=place.reads,
        )
        pipeline = self.pipeline
        stages = (pipeline.fingerprint, pipeline.look_up, pipeline.decide, pipeline.commit)
        for channel, stage in zip(channels, stages, strict=True):
            self._start(self._run(channel, stage))
        self._start(self._open())
        self._start(self._tick())

    def _start(self, work: Any) -> None:  # noqa: ANN401 - a coroutine
        self._cluster.loop.start(self.machine.program, work)

    async def _open(self) -> None:
        await self.pipeline.open()
        self.is_open = True

    async def _run(self, channel: _Channel, stage: Callable[[], Awaitable[None]]) -> None:
        while True:
            await channel.get()
            try:
                await stage()
            except Exception as error:  # noqa: BLE001 - it ends the worker, whatever it is
                self._fail(error)
                return
            await asyncio.sleep(0)

    async def _tick(self) -> None:
        while not self.stopped:
            await asyncio.sleep(_TICK_SECONDS)
            try:
                await self.pipeline.tick()
            except Exception as error:  # noqa: BLE001 - it ends the worker, whatever it is
                self._fail(error)
                return

    def _slowness(self) -> float:
        rng, now = self._cluster.network.random, self._cluster.loop.time()
        if now < self.place.slow_until:
            return rng.uniform(0.5, 5.0)
        return rng.uniform(0.0005, 0.05)

    def _fail(self, error: BaseException) -> None:
        if not self.stopped:
            self._on_failure(self, error)

    # ---- what happens to it

    def kill(self) -> None:
        self.stopped = True
        self.machine.kill()
        self.place.disk.kill()

    async def stop(self) -> None:
        """End as after SIGTERM."""
        self.stopped = True
        self.pipeline.interrupt(hands_over=True)
        task = self._cluster.loop.start(self.machine.program, self.pipeline.close())
        await asyncio.wait([task])
        self.machine.kill()  # the rest ends with the process
        self.place.disk.kill()

    @property
    def undecided(self) -> int:
        """The number of packets in the log without a verdict that it knows."""
        return len(self.pipeline.participant.replica.undecided)

    @property
    def in_flight(self) -> int:
        """The number of raw records that were read and are not output yet."""
        shards = self.pipeline.shards.values()
        return sum(each.owned.stream.waiting for each in shards if each.owned is not None)
