"""Mutants of windows and scopes: of what is near, what has expired, and the watermark."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from simhash_core.window import Window
from tests.simulation.edits import Edit
from tests.simulation.mutant import Mutant, many_records, one_edit
from tests.simulation.rules import KEPT
from tests.simulation.scenario import Fault

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
    "faults": {fault: float(fault is Fault.MOVE) for fault in Fault},
    "fault_limit": 300,
    "fault_rate": 0.03,
    "decide_limit": 1,
    "steps": 6_000,
    "produced": 0.3,
}
"""Scenarios in which workers lose all shards, read on, and soon own shards again."""

WINDOWS = (
    one_edit(
        "the times of documents are not compared",
        "index.look_up:Nearness.similarity",
        "if self.window is not None:",
        "if False:",
        SHORT,
    ),
    one_edit(
        "a time at the end of the window is outside",
        "index.look_up:Nearness.similarity",
        "apart_ms > self.window.window_ms",
        "apart_ms >= self.window.window_ms",
        {"window": Window(0, 60)},
    ),
    one_edit(
        "a wrong date moves the watermark",
        "log.log_clock:Horizons.packet",
        "np.minimum(times, appended_ms)",
        "times",
        SHORT,
    ),
    one_edit(
        "the times of deletes move the watermark",
        "log.log_clock:Horizons.packet",
        "if columns.operations is not None:",
        "if False:",
        SHORT,
    ),
    one_edit(
        "documents expire a slice too early",
        "log.log_clock:Horizons.packet",
        "each[0] >= number - SLICES",
        "each[0] > number - SLICES",
        SHORT,
    ),
    Mutant(
        "what has expired is still met",
        (
            Edit("index.view:View.hides", "if sequence < self.expired_before:", "if False:"),
            Edit(
                "index.look_up:LookUp.matches_of", "if sequence < view.expired_before:", "if False:"
            ),
        ),
        changes=SHORT,
    ),
    one_edit(
        "recent documents do not expire",
        "log.decider:Decider._decision",
        "View(sequence_number(offset, 0), replica.expired_for(offset))",
        "View(sequence_number(offset, 0))",
        SHORT,
    ),
    one_edit(
        "what has expired for a packet is what has for the latest",
        "log.log_clock:Horizons.at",
        "self.before(offset + 1)",
        "self.before(1 << 62)",
        SHORT,
    ),
    one_edit(
        "what is undecided is looked up where documents are gone that it meets",
        "log.replica:Replica.expired",
        "self.decided_before - 1",
        "self.position",
        SHORT,
    ),
    one_edit(
        "the watermark is not known after a restart",
        "log.participant:Participant.begin",
        "Horizons(self.nearness.window, first.clock)",
        "Horizons(self.nearness.window)",
        SHORT,
    ),
    one_edit(
        "the watermark that is committed is the latest",
        "log.shard_stream:ShardStream.progress",
        "replica.clock_before(progress.needed)",
        "replica.clock_before(1 << 62)",
        SHORT,
    ),
    one_edit(
        "a watermark is forgotten that a position needs",
        "log.log_clock:Horizons.forget_before",
        "bisect_left(self._offsets, offset) - 1",
        "min(bisect_left(self._offsets, offset), len(self._offsets) - 1)",
        SHORT,
    ),
    Mutant(
        "a worker without shards forgets the watermark of what is undecided",
        (
            Edit(
                "log.replica:Replica.forget_before",
                "position = min(position, self.decided_before)",
                "",
            ),
            Edit("log.log_clock:Horizons.before", "if not at:", "if False:"),
        ),
        changes=RETURNING,
    ),
    Mutant(
        "a new shard does not know the watermark",
        rules=replace(KEPT, first_progress_has_clock=False),
        changes=SHORT,
    ),
    one_edit(
        "of the documents of a content only the earliest is met",
        "index.look_up:LookUp._of_content",
        "self._source.by_content(columns.digest(row)):",
        "self._source.by_content(columns.digest(row))[:1]:",
        SHORT,
    ),
    one_edit(
        "of the documents of a content in a packet only the first is met",
        "log.nearest_matches:own_repeats",
        "is_first_enough = nearness.window_ms is None and not view.removing",
        "is_first_enough = True",
        {"window": Window(40, 300), "batch": 6, "produced": 0.02},
    ),
)

SCOPES = (
    Mutant(
        "documents of different scopes are compared",
        (
            Edit("scopes:masked", "if not scope or not fingerprint:", "if True:"),
            Edit("index.look_up:Nearness.similarity", "columns.scope(row) != entry.scope", "False"),
        ),
    ),
    Mutant(
        "texts of different scopes repeat each other",
        (
            Edit("scopes:scoped_digest", "if not scope:", "if True:"),
            Edit("index.look_up:Nearness.similarity", "columns.scope(row) != entry.scope", "False"),
        ),
    ),
)
