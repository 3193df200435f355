"""A worker's view for its pages and its watch, in a state that a test sets."""

from __future__ import annotations

from dataclasses import dataclass, field

from simhash_core.documents import Content
from simhash_core.errors import FirstseenError
from simhash_core.verdicts import Answer
from streams.monitoring.worker_state import CheckUnavailableError, ShardState, Waits

OPEN = ShardState(
    is_open=True, entries=0, waiting=0, next_offset=0, log_position=0, recovery_remaining=0
)


@dataclass
class FakeView:
    """Implements ``WorkerView``; it answers every query with ``answer``."""

    states: dict[int, ShardState] = field(default_factory=dict)
    log_position: int | None = None
    failure: FirstseenError | None = None
    leads: bool = False
    leader: str | None = None
    format_version: int | None = None
    without_standby: tuple[int, ...] = ()
    trouble: str | None = None
    found: Waits = field(default_factory=Waits)
    answer: Answer | None = None
    asked: list[tuple[Content, int, str]] = field(default_factory=list)

    @property
    def ready(self) -> bool:
        return self.why_not_ready() is None

    def why_not_ready(self) -> str | None:
        opening = [p for p, state in self.states.items() if not state.is_open]
        return self.trouble or (f"shards {opening} are being opened" if opening else None)

    def shards(self) -> dict[int, ShardState]:
        return dict(self.states)

    def waits(self) -> Waits:
        return self.found

    async def look_up(self, content: Content, limit: int, scope: str = "") -> Answer:
        self.asked.append((content, limit, scope))
        if self.answer is None:
            raise CheckUnavailableError("no leader answered within 5 s: is a worker down?")
        return self.answer
