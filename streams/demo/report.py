"""The figures of a demo; the fields are those of the JSON object that ``--json`` prints."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from streams.demo.stage_times import StageTime


class DemoReport(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a demo.

    ``documents`` is the number of records sent. ``unique`` counts the records of that output,
    ``undecidable`` those among them that were too short to compare. ``precision`` and ``recall``
    are None where the truth is not known, or there was nothing to be right about; ``by_kind`` has
    the counts behind them (``streams.demo.scoring``). ``swapped`` originals were judged after a
    copy of theirs, whose duplicates they are.
    """

    input: str | None
    seed: int | None
    profile: str
    documents: int
    unique: int
    undecidable: int
    duplicates: int
    exact_duplicates: int
    near_duplicates: int
    dead_letters: int
    dead_letters_by_reason: Mapping[str, int]
    tombstones: int
    too_long: int
    lost: int
    repeated: int
    precision: float | None
    recall: float | None
    swapped: int
    by_kind: Mapping[str, Mapping[str, int | float | None]] | None
    seconds: float
    documents_per_second: float
    shards: int
    worker_cpu_seconds: float
    stages: tuple[StageTime, ...]

    @property
    def is_whole(self) -> bool:
        """Whether every record ended in exactly one output."""
        return self.lost == 0 and self.repeated == 0
