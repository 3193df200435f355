"""The world: a seeded scheduler of workers, brokers' responses and faults, then calm, then the end.

During chaos, each step is one action of one life, one append that arrives, or one fault. Then there
is calm: faults and zombies end, and all lives act in turn. All remaining documents must be output
within a number of rounds, which is liveness.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from simhash_core.documents import Entry
from simhash_core.index.look_up import Nearness
from simhash_core.log import versions
from simhash_core.log.participant import LEADING_SHARD, ShardReady
from simhash_core.log.records import Bundle, Chain, LogRecord, Progress, Query, Report
from simhash_core.log.shard_stream import Ready
from simhash_core.log.versions import UnreadableVersionError
from tests.simulation.appends import Appends
from tests.simulation.broker import TOPIC, Broker, RawPartition, RawRecord, change
from tests.simulation.documents import SimulatedDocument, columns_of
from tests.simulation.judge import Judge, ViolationError
from tests.simulation.life import Life
from tests.simulation.narration import describe
from tests.simulation.replacements import low_limits
from tests.simulation.scenario import Fault, Scenario, draw_scenario
from tests.simulation.simulator import Runs, Simulator

CALM_ROUNDS_LIMIT = 150


class World:
    def __init__(self, scenario: Scenario, story: list[str] | None) -> None:
        self.rng = random.Random(scenario.seed + 1)
        self.scenario = scenario
        self.rules = scenario.rules
        self.judge = Judge(scenario)
        self.broker = Broker(self._raw("first", scenario.partitions), scenario.born.copy())
        self.judge.produced(self.broker.raw)
        self._faults: Counter[str] = Counter()
        self.lives: list[Life] = []
        self._story = story
        window_ms, lateness_ms = scenario.window or (None, 0)
        self._nearness = Nearness(
            scenario.scheme, scenario.verifier, window_ms, lateness_ms, replaces=scenario.replaces
        )
        self._releases = random.Random(scenario.seed + 2)
        self._appends = Appends(self)
        self._queries = list(range(len(scenario.queries)))
        self._named = 0
        self.is_calm = False
        self._later = list(scenario.later)
        members = [self._new_life() for _ in range(scenario.workers)]
        for partition in self.broker.partitions():
            self._assign(partition, self.rng.choice(members))

    # ---- the run

    def run(self) -> Runs:
        scenario, faults = self.scenario, self.scenario.fault_limit
        for _ in range(scenario.steps):
            if self._is_over():
                break
            chance = self.rng.random() - scenario.fault_rate
            if faults and chance < 0:
                faults -= 1
                self._fault()
            elif chance < scenario.produced:
                self._produce()
            elif chance < scenario.produced + scenario.arriving:
                self._appends.arrive()
            else:
                self.rng.choice(self.lives).step()
        self._calm()
        self._after_a_restart()
        self.judge.at_the_end(self._entries())
        documents = sum(map(len, self.judge.outputs.values()))
        packets = sum(isinstance(each, Bundle) for each in self.broker.log)
        return Runs(1, Counter(records=documents, packets=packets), self._faults)

    def _is_over(self) -> bool:
        if not self.judge.has_all_outputs(self.broker.raw) or self._queries:
            return False
        if not self.judge.removed.isdisjoint(self._entries()):
            return False
        if self.is_calm and self.scenario.older < 1.0 and self.judge.version < versions.NEWEST:
            return False
        if not self._later:
            return not self.judge.undecided
        self._create_topic_again()
        return False

    def _calm(self) -> None:
        self.is_calm = True
        self.tell("calm")
        for life in self.lives.copy():
            if not life.is_member:
                self._end(life)
        for partition in range(len(self.broker.raw)):
            self._be_born(partition)
        if self.scenario.older < 1.0:
            for life in [each for each in self.lives if each.reads < versions.NEWEST]:
                self._crash(life)
        # A leader may decide only one packet per round.
        for _ in range(CALM_ROUNDS_LIMIT + len(self.judge.undecided)):
            if self._is_over():
                return
            for raw in self.broker.raw:
                raw.produce(raw.limit)
            while self._queries:
                self._ask()
            self._round()
        waiting = [len(self.judge.outputs[raw.chain]) for raw in self.broker.raw]
        raise ViolationError(f"no end: put out {waiting}, undecided {[*self.judge.undecided]}")

    def _round(self) -> None:
        for life in self.lives.copy():
            while self._appends.are_under_way:
                self._appends.arrive()
            life.whole_cycle()

    def _after_a_restart(self) -> None:
        """Check that committed state is enough: nothing is output again, and work continues."""
        check_indexes(self.lives, self.broker, self.judge)
        outputs = [len(each) for each in self.judge.outputs.values()]
        for life in self.lives.copy():
            self._crash(life)
        for _ in range(6):
            self._round()
        check_trimmed(self.broker, self.judge)
        if outputs != [len(each) for each in self.judge.outputs.values()]:
            raise ViolationError("something is put out again after a restart")
        for raw in self.broker.raw:
            raw.limit = len(raw.records)
        self._calm()
        check_indexes(self.lives, self.broker, self.judge)

    def _entries(self) -> dict[int, Entry]:
        return {s: e for changelog in self.broker.changelogs for s, e in changelog.entries.items()}

    # ---- what lives ask for

    def send(self, life: Life, record: LogRecord | Report) -> None:
        self._appends.send(life, record)

    def commit(self, life: Life, ready: list[ShardReady[RawRecord]]) -> bool:
        """Commit what is ready if the life may; return whether it learns of the success."""
        assigned = self.broker.assigned(life.name)
        fenced = any(assigned.get(e.partition) != life.epochs[e.partition] for e in ready)
        if fenced and self.rules.commits_are_fenced:
            self.tell(f"{life.name} cannot commit")
            return False
        for each in ready:
            self._commit_shard(life, each)
        if not self.is_calm and self.rng.random() < self.scenario.lost / 3:
            self.tell(f"{life.name} does not learn that it has committed")
            self._crash(life)
            return False
        return True

    def _commit_shard(self, life: Life, each: ShardReady[RawRecord]) -> None:
        changelog = self.broker.changelogs[each.partition]
        self.tell(f"{life.name} puts out {len(each.ready.outputs)}, {each.progress}")
        self.judge.put_out(each.progress.chain, each.ready)
        self.judge.progress(each.progress, changelog.progress)
        if self.rules.entries_with_outputs or self.rng.random() < 0.9:
            change(changelog.entries, each.ready)
            changelog.commits.append(each)
        if self.rules.progress_with_outputs or self.rng.random() < 0.9:
            changelog.progress = each.progress

    def commit_initial(self, partition: int, progress: Progress) -> None:
        self.tell(f"first {progress}")
        changelog = self.broker.changelogs[partition]
        changelog.progress = progress
        changelog.commits.append(ShardReady(partition, Ready([], [], progress.next), progress))
        self.judge.trimmed(self.broker.log_start, [progress])

    def trim(self, life: Life, offset: int) -> None:
        if offset > self.broker.log_start:
            self.tell(f"{life.name} trims the log to {offset}")
            self.broker.log_start = offset
            born = self.broker.partitions()
            self.judge.trimmed(offset, [self.broker.changelogs[p].progress for p in born])

    def join(self, life: Life) -> None:
        """Give a life a shard when it comes back to the group with everything that it remembers."""
        leads = self.rng.random() < 0.5
        self._assign(LEADING_SHARD if leads else self.rng.choice(self.broker.partitions()), life)
        if self.rng.random() < 0.5:
            life.learn()
            if life.epochs:
                life.begin()

    def cannot_read(self, life: Life) -> None:
        """Note that the log was trimmed beyond the position of a life.

        This is allowed if the life is a zombie, or has no shard and waits for one.
        """
        if life.is_current and life.participant.held.reported:
            where = life.participant.replica.position
            raise ViolationError(f"{life.name} reads at {where}; the log begins later")

    def tell(self, line: str) -> None:
        if self._story is not None:
            self._story.append(line)

    # ---- what happens by itself

    def _produce(self) -> None:
        """Produce raw records, a partition or a query."""
        partition = self.rng.randrange(len(self.broker.raw))
        self._be_born(partition)
        raw = self.broker.raw[partition]
        raw.produce(self.rng.randint(1, 6))
        if self._queries and self.rng.random() < 0.2:
            self._ask()

    def _be_born(self, partition: int) -> None:
        if not self.broker.born[partition]:
            self.broker.born[partition] = True
            self._assign(partition, self.rng.choice(self._members()))

    def _ask(self) -> None:
        number = self._queries.pop()
        columns = columns_of(self.scenario.scheme, [(0, self.scenario.queries[number])])
        self._appends.append("somebody", Query(str(number), self.rng.randint(1, 4), columns))

    def _create_topic_again(self) -> None:
        """Delete the raw topic, which is drained, and create it again."""
        self.tell("the raw topic is created again")
        self.broker.raw = self._raw("second", self._later)
        self.judge.produced(self.broker.raw)
        self._later = []
        for partition in self.broker.partitions():
            self._assign(partition, self.rng.choice(self._members()))

    # ---- workers

    def _members(self) -> list[Life]:
        return [life for life in self.lives if life.is_member]

    def _new_life(self) -> Life:
        self._named += 1
        life = Life(f"w{self._named}", self, self._nearness, self._draw_release())
        self.lives.append(life)
        return life

    def _draw_release(self) -> int:
        """Return the version that the next life reads, which varies while workers are replaced."""
        older = self.scenario.older
        if older == 1.0:
            return versions.OLDEST
        is_older = not self.is_calm and self._releases.random() < older
        return versions.OLDEST if is_older else versions.NEWEST

    def list_members(self, who: str) -> list[str]:
        """Return the members of the group; the judge notes which versions they read."""
        members = {life.name: life.reads for life in self._members()}
        self.judge.listed(who, members)
        return [*members]

    def refuses(self, life: Life, why: UnreadableVersionError) -> None:
        """End a life that cannot read on; a life of another release replaces it."""
        self.tell(f"{life.name} ends: {why}")
        if self.judge.version <= life.reads:
            raise ViolationError(f"{life.name} refuses, and {self.judge.version} is in force")
        self._crash(life)

    def _end(self, life: Life) -> None:
        self.tell(f"{life.name} ends")
        life.is_member = False
        self.lives.remove(life)

    def _assign(self, partition: int, life: Life) -> None:
        self.broker.assign(partition, life.name)
        self.tell(f"{life.name} owns partition {partition} from now on")
        others = [each for each in self._members() if each is not life]
        if self.scenario.standbys and others:
            self.broker.standbys[partition] = self.rng.choice(others).name
        if self.rng.random() < 0.3:
            for each in self._members():
                each.learn()

    def _hand_over(self, life: Life) -> None:
        fresh = self._new_life()
        if not self.is_calm:
            fresh.standstill = self.rng.choice((0, 0, 30, 100))
        members = [each for each in self._members() if each is not life]
        whole = self.rng.random() < 0.6
        for partition in self.broker.assigned(life.name):
            standbys = [m for m in members if m.name == self.broker.standbys.get(partition)]
            if standbys and self.rng.random() < 0.7:
                self._assign(partition, standbys[0])
            else:
                self._assign(partition, fresh if whole else self.rng.choice(members))

    def _crash(self, life: Life) -> None:
        if life not in self.lives:
            return
        self._end(life)
        if life.name in self.broker.owners or not self._members():
            self._hand_over(life)

    # ---- faults

    def _fault(self) -> None:
        kinds, weights = zip(*self.scenario.faults.items(), strict=True)
        if not any(weights):
            return
        fault = self.rng.choices(kinds, weights)[0]
        self._faults[fault] += 1
        self.tell(f"FAULT {fault}")
        self._happens(fault)

    def _happens(self, fault: Fault) -> None:
        life = self.rng.choice(self._members())
        partition = self.rng.choice(self.broker.partitions())
        faults: dict[Fault, Callable[[], None]] = {
            Fault.CRASH: lambda: self._crash(life),
            Fault.ZOMBIE: lambda: self._become_zombie(life),
            Fault.MOVE: lambda: self._assign(partition, life),
            Fault.LEADER_MOVES: lambda: self._assign(LEADING_SHARD, life),
            Fault.REVOKE_ALL: lambda: self._hand_over(life),
            Fault.SESSION: life.begin,
            Fault.SEND_AGAIN: life.send_again,
            Fault.ZOMBIE_ENDS: self._end_zombies,
            Fault.ZOMBIE_RETURNS: self._zombies_return,
            Fault.STANDSTILL: lambda: self._stand_still(life),
        }
        faults[fault]()

    def _become_zombie(self, life: Life) -> None:
        life.is_member = False
        self._hand_over(life)

    def _end_zombies(self) -> None:
        for life in self.lives.copy():
            if not life.is_member:
                self._end(life)

    def _zombies_return(self) -> None:
        """Let zombies learn that they are zombies, and join again a little later."""
        for life in self.lives:
            if not life.is_member:
                life.is_member = True
                life.learn()
                life.joins_in = self.rng.randint(1, 30)

    def _stand_still(self, life: Life) -> None:
        """Let a life do nothing for a while; the group may consider it dead."""
        life.standstill = self.rng.randint(10, 200)
        if self.rng.random() < 0.5:
            self._become_zombie(life)

    def _raw(
        self, topic_id: str, partitions: list[list[SimulatedDocument | None]]
    ) -> list[RawPartition]:
        return [
            RawPartition(Chain(TOPIC, topic_id, number), documents, self.rng)
            for number, documents in enumerate(partitions)
        ]


# ---- what must be kept when all is output, and no more


def check_trimmed(broker: Broker, judge: Judge) -> None:
    """Check that the log is trimmed once everything is decided and output."""
    progresses = [each.progress for each in broker.changelogs if each.progress is not None]
    for progress in progresses:
        if progress.position != judge.decided_before:
            raise ViolationError(f"{progress}; {judge.decided_before} is decided")
    needed = min(each.needed for each in progresses)
    if broker.log_start != needed:
        raise ViolationError(f"the log begins at {broker.log_start}, {needed} is needed")


def check_indexes(lives: Iterable[Life], broker: Broker, judge: Judge) -> None:
    """Check that each document is in its owner's index once, and in that of the shard's standby.

    A life that does not know yet that it lost a shard does not know later commits, and a standby
    does not know what it has not read.
    """
    for life in lives:
        assigned, participant = broker.assigned(life.name), life.participant
        slots = {
            number: shard.slot
            for number, shard in participant.shards.items()
            if assigned.get(number) == life.epochs[number]
        }
        if participant.replica.position >= broker.log_end:
            for number, standby in participant.held.standbys.items():
                if standby.in_session and life.standbys.has_followed(number):
                    slots[number] = standby.copy.slot
        for number, slot in slots.items():
            _check_index(number, participant.index.documents(slot), broker, judge)


def _check_index(number: int, found: int, broker: Broker, judge: Judge) -> None:
    """Check one number of entries; expired entries may be there or forgotten."""
    entries = broker.changelogs[number].entries
    decidable = [each for each, entry in entries.items() if entry.fingerprint]
    live = sum(each >= judge.expired_before for each in decidable)
    if not live <= found <= len(decidable):
        expected = f"{live} to {len(decidable)}"
        raise ViolationError(f"shard {number}: {found} in the index, not {expected}")


def simulate(scenario: Scenario, story: list[str] | None = None) -> Runs:
    """Run a scenario; raises ``ViolationError`` if an invariant does not hold."""
    if story is not None:
        story += describe(scenario)
    with low_limits(scenario.memtable, scenario.forgotten, scenario.compared):
        return World(scenario, story).run()


PROTOCOL: Final = Simulator(
    "the protocol", draw_scenario, simulate, {"older": 1.0}, tries=1_000, chunk=50
)
