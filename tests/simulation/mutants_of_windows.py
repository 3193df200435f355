"""Mutants of windows and scopes: near documents, expired documents, and the watermark."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from simhash_core import documents
from simhash_core.document_columns import DocumentColumns
from simhash_core.index import look_up
from simhash_core.index.look_up import Nearness, View
from simhash_core.log import nearest_matches, records
from simhash_core.log.decider import Decider
from simhash_core.log.records import Horizons, Progress, sequence_number
from simhash_core.log.replica import Replica
from simhash_core.log.shard_stream import ShardStream
from simhash_core.log.shards import HeldShards
from simhash_core.window import Window
from tests.simulation.mutant import Rule, Tried, many_records, only
from tests.simulation.mutants_of_shards import progress_as
from tests.simulation.replacements import Function, Replacement, always, by, wrapped
from tests.simulation.scenario import Fault

BEYOND: Final = 1 << 61
"""An offset or a time above all others."""
SHORT: Final = {"window": Window(150, 60)}
"""Scenarios in which documents expire soon."""

RETURNING: Final[dict[str, Any]] = {
    "window": Window(40, 0),
    "replaces": True,
    "standbys": False,
    "partitions": many_records(2, 120),
    "later": [],
    "born": [True, True],
    "queries": [],
    "workers": 2,
    "faults": only(Fault.MOVE),
    "fault_limit": 300,
    "fault_rate": 0.03,
    "decide_limit": 1,
    "steps": 6_000,
    "produced": 0.3,
}
"""Scenarios in which workers lose all shards, continue to read, and soon own shards again."""


def _bundle_without_operations(
    original: Function, horizons: Horizons, offset: int, columns: DocumentColumns, *rest: object
) -> None:
    original(horizons, offset, replace(columns, operations=None), *rest)


def _latest_clock(
    stream: ShardStream[object], progress: Progress, replica: Replica
) -> Mapping[str, object]:
    is_later = progress.position > stream.committed.position
    return {"clock": replica.clock_before(BEYOND)} if is_later else {}


WINDOWS: Final[dict[str, Rule]] = {
    "the times of documents are not compared": always(Nearness, "_is_in_window", True),
    "a wrong date moves the watermark": wrapped(
        Horizons,
        "bundle",
        lambda original, horizons, offset, columns, _: original(horizons, offset, columns, BEYOND),
    ),
    "the times of deletes move the watermark": wrapped(
        Horizons, "bundle", _bundle_without_operations
    ),
    "documents expire a slice too early": Replacement(records, "SLICES", lambda slices: slices - 1),
    "what has expired is still met": always(View, "has_expired", False),
    "recent documents do not expire": by(
        Decider, "_view", lambda _leader, _replica, offset: View(sequence_number(offset, 0))
    ),
    "what has expired for a packet is what has for the latest": wrapped(
        Horizons, "at", lambda original, horizons, _offset: original(horizons, BEYOND)
    ),
    "the later documents of a bundle expire what its first ones meet": wrapped(
        Horizons, "at", lambda original, horizons, offset: original(horizons, offset + 1)
    ),
    "what is undecided is looked up where documents are gone that it meets": by(
        Replica, "expired", lambda replica: replica.expired_for(replica.position)
    ),
    "the watermark is not known after a restart": wrapped(
        Horizons, "__init__", lambda original, horizons, window, *_: original(horizons, window)
    ),
    "the watermark that is committed is the latest": progress_as(_latest_clock),
    "a watermark is forgotten that a position needs": by(
        Horizons,
        "_unneeded",
        lambda horizons, offset: min(
            bisect_left(horizons._offsets, offset), len(horizons._offsets) - 1
        ),
    ),
    "a new shard does not know the watermark": "first_progress_has_clock",
    "of the documents of a content only the earliest is met": wrapped(
        HeldShards, "by_content", lambda original, shards, digest: original(shards, digest)[:1]
    ),
    "a time at the end of the window is outside": Tried(
        by(
            Nearness,
            "_is_in_window",
            lambda nearness, apart_ms: (
                nearness.window is None or apart_ms < nearness.window.window_ms
            ),
        ),
        {"window": Window(0, 60)},
    ),
    "a worker without shards forgets the watermark of what is undecided": Tried(
        (
            by(Replica, "_needed_from", lambda _replica, position: position),
            by(
                Horizons,
                "before",
                lambda horizons, offset: horizons._clocks[
                    bisect_left(horizons._offsets, offset) - 1
                ],
            ),
        ),
        RETURNING,
    ),
    "of the documents of a content in a packet only the first is met": Tried(
        always(nearest_matches, "_is_first_enough", True),
        {"window": Window(40, 300), "batch": 6, "produced": 0.02},
    ),
}


SCOPES: Final[dict[str, Rule]] = {
    "documents of different scopes are compared": (
        by(documents, "masked", lambda fingerprint, _scope: fingerprint),
        always(look_up, "_is_in_scope", True),
    ),
    "texts of different scopes repeat each other": (
        by(documents, "scoped_digest", lambda digest, _scope: digest),
        always(look_up, "_is_in_scope", True),
    ),
}
