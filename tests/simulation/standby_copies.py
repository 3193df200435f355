"""The standbys of one life: stores that follow the changelogs of other workers' shards."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from simhash_core.log.participant import LEADING_SHARD, Participant
from simhash_core.log.records import Progress
from tests.simulation.broker import RawRecord, StoredEntries

if TYPE_CHECKING:
    from tests.simulation.world import World

_ALL = 1_000_000
_DROPS = 0.1
"""How often a kept standby that no plan wants is dropped."""
_LEADS = 0.1
"""How often a worker with a standby of the leading shard leads."""


@dataclass(slots=True)
class _Copy:
    """A stored copy of another worker's shard; ``followed``: the number of commits in it.

    ``is_kept``: it was this worker's shard, and no plan wants it.
    """

    store: StoredEntries
    followed: int
    is_kept: bool = False


class StandbyCopies:
    def __init__(self, name: str, participant: Participant[RawRecord], world: World) -> None:
        self._name = name
        self._participant = participant
        self._held = participant.held
        self._world = world
        self._copies: dict[int, _Copy] = {}
        self._rng = Random(f"kept {world.scenario.seed} {name}")

    def __len__(self) -> int:
        return len(self._copies)

    def keeps(self) -> bool:
        return self._rng.random() < self._world.scenario.kept

    def keep(self, partition: int, store: StoredEntries) -> None:
        """Keep a shard that was lost as a standby, for some time."""
        self._copies[partition] = _Copy(store, store.commits, is_kept=True)
        self._world.tell(f"{self._name} keeps shard {partition} as a standby")

    def promote(self, partition: int, progress: Progress) -> StoredEntries | None:
        """Own a shard that was a standby; None if there is none, or if it was behind its owner."""
        copy = self._copies.pop(partition, None)
        if copy is None:
            return None
        self._follow(copy, partition, _ALL)
        if self._participant.promote(progress) is None:
            return None
        self._world.tell(f"{self._name} promotes its standby of shard {partition}")
        return copy.store

    def hold(self, wanted: set[int]) -> list[int]:
        """Drop standbys that are outdated or not wanted; open missing ones, and return these."""
        for partition in list(self._copies):
            is_wanted = partition in wanted or self._is_kept_on(partition)
            if not is_wanted or self._held.standbys[partition].is_outdated:
                self._drop_shard(partition)
        changelogs = self._world.broker.changelogs
        fresh = sorted(wanted - self._copies.keys())
        return [p for p in fresh if changelogs[p].progress is not None and self._open(p)]

    def _is_kept_on(self, partition: int) -> bool:
        return self._copies[partition].is_kept and self._rng.random() > _DROPS

    def follow(self, limit: int) -> None:
        for partition, copy in self._copies.items():
            self._follow(copy, partition, limit)

    def lead(self, rng: Random) -> bool:
        """Sometimes lead for another leader, which may be alive."""
        participant = self._participant
        owns = LEADING_SHARD in participant.shards and participant.decider is None
        can_lead = owns or LEADING_SHARD in self._held.standbys
        return can_lead and rng.random() <= _LEADS and participant.take_lead()

    def has_followed(self, partition: int) -> bool:
        commits = self._world.broker.changelogs[partition].commits
        return self._copies[partition].followed == len(commits)

    def open_trimmed(self) -> None:
        """Open standbys again that are behind the start of the log."""
        self.follow(_ALL)
        self._held.progresses(self._participant.replica.decided_before)
        for partition in list(self._copies):
            progress = self._held.standbys[partition].progress
            if progress.needed < self._world.broker.log_start:
                self._drop_shard(partition)
                self._open(partition)

    def _open(self, partition: int) -> bool:
        changelog = self._world.broker.changelogs[partition]
        progress = changelog.progress
        assert progress is not None
        store = StoredEntries(changelog.entries)
        self._copies[partition] = _Copy(store, len(changelog.commits))
        slot = self._held.fill_slot(store.prints(self._participant.index.scheme.sketch_bands))
        self._held.add_standby(progress, store, slot, self._world.broker.log_end)
        self._world.tell(f"{self._name} stands by for shard {partition} at {progress}")
        return True

    def _drop_shard(self, partition: int) -> None:
        del self._copies[partition]
        self._participant.drop_standby(partition)

    def _follow(self, copy: _Copy, partition: int, limit: int) -> None:
        standby = self._held.standbys[partition]
        commits = self._world.broker.changelogs[partition].commits
        for commit in commits[copy.followed : copy.followed + limit]:
            if self._world.rules.standbys_write_before_they_report:
                copy.store.write(commit.ready)
            standby.owner_committed(commit.progress, commit.ready.removed)
            copy.followed += 1
