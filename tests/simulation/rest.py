"""What must hold when everything is put out: what is kept is what is needed, and no more."""

from __future__ import annotations

from collections.abc import Iterable

from tests.simulation.broker import Broker
from tests.simulation.judge import Judge, ViolationError
from tests.simulation.life import Life


def check_trimmed(broker: Broker, judge: Judge) -> None:
    """Nothing that is decided and put out is needed any more, and the log is trimmed."""
    progresses = [each.progress for each in broker.changelogs if each.progress is not None]
    for progress in progresses:
        if progress.position != judge.decided_before:
            raise ViolationError(f"{progress}; {judge.decided_before} is decided")
    needed = min(each.needed for each in progresses)
    if broker.log_start != needed:
        raise ViolationError(f"the log begins at {broker.log_start}, {needed} is needed")


def check_indexes(lives: Iterable[Life], broker: Broker, judge: Judge) -> None:
    """Each shard's documents are in its owner's index once, and in that of its standby.

    A life that has not learned yet that it lost a shard knows nothing of what others commit, and a
    standby nothing of what it has not read.
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
                    slots[number] = standby.slot
        for number, slot in slots.items():
            _check_index(number, participant.index.documents(slot), broker, judge)


def _check_index(number: int, found: int, broker: Broker, judge: Judge) -> None:
    """What has expired may be there, or may have been forgotten."""
    entries = broker.changelogs[number].entries
    decidable = [each for each, entry in entries.items() if entry.fingerprint]
    live = sum(each >= judge.expired_before for each in decidable)
    if not live <= found <= len(decidable):
        expected = f"{live} to {len(decidable)}"
        raise ViolationError(f"shard {number}: {found} in the index, not {expected}")
