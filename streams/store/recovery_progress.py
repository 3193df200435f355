"""How far a shard has come on its way through its changelog."""

from __future__ import annotations

from typing import NamedTuple


class Recovery(NamedTuple):
    """Changelog records that a shard has yet to read, of how many."""

    remaining: int
    total: int
