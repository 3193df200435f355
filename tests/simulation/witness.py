"""A witness: that a packet handled again, by anyone, leads to what it led to before."""

from __future__ import annotations

from simhash_core.effects import Effect


class DivergedError(Exception):
    """The same packets led to other effects than before: the state was not what it was."""


class Witness:
    """Remembers what each packet of each partition led to, and objects when it leads elsewhere."""

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self._seen: dict[tuple[int, int], list[Effect]] = {}

    def see(self, partition: int, offset: int, effects: list[Effect]) -> bool:
        """Take note of what the packet at ``offset`` led to; True when it was seen before."""
        before = self._seen.setdefault((partition, offset), effects)
        if before != effects:
            raise DivergedError(
                f"the packet {offset} of partition {partition} led to {before} "
                f"and, handled again, to {effects}"
            )
        return before is not effects
