"""The schedule: which part of the simulated cluster takes the next step."""

from __future__ import annotations

from random import Random
from typing import Final, Protocol

SLOWNESS: Final = (0.0, 0.0, 0.0, 0.5, 0.9, 0.98)
"""The chances that a part is passed over when its turn comes: some lag far behind the rest."""

PASSED_OVER_MOST: Final = 15
"""So often others are looked for; where all are slow, one of them must."""


class Actor(Protocol):
    """A part of the cluster that acts by itself, a step at a time."""

    slowness: float

    def step(self) -> None:
        """Do the next thing, or nothing where there is nothing to do."""
        ...


class Schedule:
    """Picks at random among those that have something to do, and keeps the story of the run."""

    def __init__(self, seed: int, *, told: bool = False) -> None:
        """Begin with nobody waiting; ``told`` keeps the story."""
        self.chance = Random(f"schedule/{seed}")
        self.steps = 0
        self.story: list[str] | None = [] if told else None
        self._waiting: list[Actor] = []

    def ready(self, actor: Actor) -> None:
        """Let an actor have a step at some time; once for each call."""
        self._waiting.append(actor)

    def draw_slowness(self) -> float:
        """Return how slow a new actor is."""
        return SLOWNESS[int(self.chance.random() * len(SLOWNESS))]

    def below(self, limit: int) -> int:
        """Return a number from 0 to ``limit - 1``."""
        return int(self.chance.random() * limit)

    def advance(self) -> bool:
        """Let one actor take a step; False when nobody has anything to do."""
        waiting, random = self._waiting, self.chance.random
        if not waiting:
            return False
        self.steps += 1
        index = int(random() * len(waiting))
        for _ in range(PASSED_OVER_MOST):
            if random() >= waiting[index].slowness:
                break
            index = int(random() * len(waiting))
        actor = waiting[index]
        waiting[index] = waiting[-1]
        waiting.pop()
        actor.step()
        return True

    def tell(self, line: str) -> None:
        """Add a line to the story; costly lines are only made where ``story`` is not None."""
        if self.story is not None:
            self.story.append(f"{self.steps:5}  {line}")
