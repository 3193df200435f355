"""A worker with a standby of the leading shard leads while the owner of that shard is silent.

Whoever leads, the verdicts are the same, and of two that believe to lead nobody heeds one. So this
need not be sure that the owner is dead: one that is alive leads again as soon as it reads that it
was succeeded, and then this worker waits for longer before it tries again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from simhash_core.log.participant import LEADING_SHARD, Participant
from streams.intake.raw_batches import RawArrival

SILENT_SECONDS: Final = 0.5
"""How long nothing is decided, though documents wait, before another worker leads."""
_LONGEST_SECONDS: Final = 60.0
_GROWTH: Final = 2
_CALM: Final = 10
"""Times the last wait without a need to lead, after which the wait is short again."""


class StandIn:
    """Says when to lead for the owner of the leading shard. On the event loop."""

    def __init__(
        self,
        participant: Participant[RawArrival],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin with the shortest wait."""
        self._participant = participant
        self._now = now
        self._wait = SILENT_SECONDS
        self._seen: tuple[int, int | None] = (0, None)
        self._since = now()
        self._tried_at: float | None = None

    def is_due(self) -> bool:
        """Return whether documents have waited for so long that this worker should lead."""
        participant, now = self._participant, self._now()
        replica = participant.replica
        seen = replica.control, next(iter(replica.undecided), None)
        if seen != self._seen or seen[1] is None or not participant.caught_up:
            self._seen, self._since = seen, now
            return False
        can_lead = LEADING_SHARD in participant.held.standbys and participant.decider is None
        return can_lead and now - self._since >= self._wait

    def try_to_lead(self) -> bool:
        """Lead, where this worker has the standby for it; return whether it tries to."""
        now = self._now()
        self._since = now
        if not self._participant.stand_in():
            return False
        calm = self._tried_at is None or now - self._tried_at > _CALM * self._wait
        grown = SILENT_SECONDS if calm else min(_GROWTH * self._wait, _LONGEST_SECONDS)
        self._wait, self._tried_at = grown, now
        return True
