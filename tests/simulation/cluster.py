"""The simulated cluster: agents, shards and workers around one broker, and the faults they meet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from simhash_core.errors import ProtocolError
from tests.simulation.broker import Broker
from tests.simulation.changelog import Disk
from tests.simulation.fingerprinting import FingerprintAgent, address
from tests.simulation.invariants import Finished, ViolationError, check
from tests.simulation.protocol import REAL, Protocol
from tests.simulation.scenario import Fault, Scenario
from tests.simulation.schedule import Schedule
from tests.simulation.shard_owner import ShardOwner
from tests.simulation.stage import Reached, Stage
from tests.simulation.witness import DivergedError, Witness


@dataclass(frozen=True, slots=True)
class Report:
    """What a run came to. ``messages``: those that shards sent to one another, by kind."""

    documents: int
    messages: Counter[str]
    steps: int
    faults: Counter[Fault]
    reached: Counter[Reached]


def simulate(
    scenario: Scenario, protocol: Protocol = REAL, story: list[str] | None = None
) -> Report:
    """Run a scenario to its end and check it; raises ``ViolationError``. ``story`` is added to."""
    cluster = Cluster(scenario, protocol, told=story is not None)
    try:
        return cluster.run()
    finally:
        if story is not None:
            story += cluster.schedule.story or ()


class Cluster:
    """One run."""

    def __init__(self, scenario: Scenario, protocol: Protocol, *, told: bool = False) -> None:
        """Begin with all documents in the raw partitions and nothing read."""
        self.schedule = Schedule(scenario.schedule_seed, told=told)
        self._scenario = scenario
        self._broker = Broker(
            self.schedule, protocol, scenario.placement.partitions, scenario.raw_partitions
        )
        self._stage = Stage(self.schedule, self._broker, protocol, Witness(), scenario)
        self._disks: dict[tuple[int, int], Disk] = {}
        self._zombies: list[ShardOwner] = []
        self._faults: Counter[Fault] = Counter()
        self._arrivals = scenario.arrivals()
        self._messages = [
            address(arrivals, scenario.placement, protocol) for arrivals in self._arrivals
        ]
        partitions = range(scenario.placement.partitions)
        self._owners = [self._open(shard, shard % scenario.workers) for shard in partitions]
        self._agents = [self._start_agent(raw) for raw in range(scenario.raw_partitions)]

    def run(self) -> Report:
        """Let everything happen, then check the invariants."""
        scenario, schedule = self._scenario, self.schedule
        size = len(scenario.documents)
        kinds = sorted(scenario.faults)
        left = scenario.faults_most if kinds else 0
        rate = min(0.3, left / (6 * size + 10))
        bound = 20_000 + 1_000 * size
        try:
            while schedule.advance():
                if left and schedule.chance.random() < rate:
                    left -= 1
                    self._inject(kinds[schedule.below(len(kinds))])
                if schedule.steps > bound:
                    raise ViolationError("progress", f"no end after {bound} steps")
            # A zombie that opened last has done the work, and the owner does not know of it yet.
            if self._zombies or (kinds and schedule.below(2)):
                self._restart_all()
            while schedule.advance():
                pass
        except ProtocolError as error:
            raise ViolationError("protocol", str(error)) from error
        except DivergedError as error:
            raise ViolationError("stability", str(error)) from error
        check(
            Finished(
                scenario.placement,
                scenario.delivery,
                self._arrivals,
                self._broker.outputs,
                self._owners,
            )
        )
        reached = self._stage.reached
        reached[Reached.WITHDRAWN] = self._broker.sent["Withdraw"]
        return Report(size, self._broker.sent, schedule.steps, self._faults, reached)

    # ------------------------------------------------------------ starting

    def _open(self, shard: int, worker: int) -> ShardOwner:
        for zombie in self._zombies:
            if (zombie.partition, zombie.worker) == (shard, worker):
                zombie.stop(crash=True)  # one process opens a disk, once
        return ShardOwner(
            self._stage,
            shard,
            worker,
            self._disks.setdefault((worker, shard), Disk()),
            self._fenced,
        )

    def _fenced(self, owner: ShardOwner) -> None:
        """Open a shard again whose rightful owner was fenced by an old one that opened late.

        A process that is stopped just before it fences does so when it wakes, whoever owns the
        shard by then. The owner must not take that for the end of its assignment.
        """
        if self._owners[owner.partition] is owner:
            self._stage.reached[Reached.FENCED_BY_OLD] += 1
            self._owners[owner.partition] = self._open(owner.partition, owner.worker)

    def _start_agent(self, raw_partition: int) -> FingerprintAgent:
        return FingerprintAgent(self._stage, raw_partition, self._messages[raw_partition])

    # ------------------------------------------------------------ faults

    def _inject(self, fault: Fault) -> None:
        act: dict[Fault, Callable[[], None]] = {
            Fault.CRASH_SHARD: self._crash_shard,
            Fault.CRASH_WORKER: lambda: self._crash_worker(self._some_worker()),
            Fault.LOSE_DISK: self._lose_disk,
            Fault.MOVE_SHARD: self._move_shard,
            Fault.ZOMBIE_SHARD: self._leave_zombie,
            Fault.ABORT: self._abort,
            Fault.CRASH_AGENT: self._crash_agent,
            Fault.ZOMBIE_AGENT: self._leave_zombie_agent,
            Fault.COMPACT: self._compact,
        }
        self._faults[fault] += 1
        self.schedule.tell(f"FAULT: {fault}")
        act[fault]()

    def _some_owner(self) -> ShardOwner:
        return self._owners[self.schedule.below(len(self._owners))]

    def _some_worker(self) -> int:
        return self.schedule.below(self._scenario.workers)

    def _crash_shard(self) -> None:
        self._replace(self._some_owner(), crash=True)

    def _crash_worker(self, worker: int) -> None:
        for owner in [owner for owner in self._owners if owner.worker == worker]:
            self._replace(owner, crash=True)
        for zombie in [zombie for zombie in self._zombies if zombie.worker == worker]:
            zombie.stop(crash=True)

    def _lose_disk(self) -> None:
        worker = self._some_worker()
        self._crash_worker(worker)
        for (of, _), disk in self._disks.items():
            if of == worker:
                disk.clear()

    def _move_shard(self) -> None:
        self._replace(self._some_owner(), crash=False)

    def _replace(self, owner: ShardOwner, *, crash: bool) -> None:
        owner.stop(crash=crash)
        self.schedule.tell(f"{owner} {'dies' if crash else 'stops'}")
        self._owners[owner.partition] = self._open(owner.partition, self._some_worker())

    def _leave_zombie(self) -> None:
        owner = self._some_owner()
        worker = self._some_worker()
        if worker == owner.worker:
            return
        self.schedule.tell(f"{owner} goes on as a zombie")
        self._zombies.append(owner)
        self._owners[owner.partition] = self._open(owner.partition, worker)

    def _abort(self) -> None:
        self._some_owner().fails_next_commit = True

    def _crash_agent(self) -> None:
        raw = self.schedule.below(len(self._agents))
        self.schedule.tell(f"the agent of raw partition {raw} dies")
        self._agents[raw].kill()
        self._agents[raw] = self._start_agent(raw)

    def _leave_zombie_agent(self) -> None:
        raw = self.schedule.below(len(self._agents))
        self.schedule.tell(f"the agent of raw partition {raw} goes on as a zombie")
        self._agents[raw] = self._start_agent(raw)

    def _compact(self) -> None:
        for log in self._broker.changelogs:
            end = self.schedule.below(log.end + 1) if self.schedule.below(2) else log.end
            log.compact(end, purge=self.schedule.below(2) == 0)

    def _restart_all(self) -> None:
        """Crash all shards at rest, so that what is checked in the end is what lasted."""
        self.schedule.tell("everything is at rest; all shards crash")
        for owner in list(self._owners):
            self._replace(owner, crash=True)
