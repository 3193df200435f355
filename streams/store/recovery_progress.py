"""How far a shard has come on its way through its changelog."""

from __future__ import annotations

from typing import NamedTuple


class Recovery(NamedTuple):
    """Changelog records that a shard has yet to read, of how many."""

    remaining: int
    total: int

    @property
    def share_done(self) -> float | None:
        """The part that is read, 0 to 1; None where there is nothing to read."""
        return round(1 - self.remaining / self.total, 4) if self.total else None
