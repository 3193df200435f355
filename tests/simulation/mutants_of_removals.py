"""Mutants of deletes, and of documents that replace those of their id.

The rule that nothing is looked up before the heads of the chains are known has no mutant, because
seeds catch it too seldom. ``tests/unit/core/log/test_participant.py`` tests it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from simhash_core.document_columns import DocumentColumns
from simhash_core.index import look_up as view_module
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.key_filter import Column
from simhash_core.index.look_up import View
from simhash_core.log import decider, participant, removals, shards
from simhash_core.log.decider import Decider
from simhash_core.log.participant import Reporter
from simhash_core.log.records import Bundle, Decision, Heads, Progress, sequence_number
from simhash_core.log.removals import UndecidedRemovals
from simhash_core.log.replica import Replica
from simhash_core.log.shard_stream import DecidedPacket, ShardStream
from simhash_core.log.shards import HeldShards, ShardCopy
from simhash_core.log.unique_documents import RecentUniques
from simhash_core.window import Window
from tests.simulation.mutant import SESSIONS_BEGIN_LATE, Rule, Tried, only
from tests.simulation.mutants_of_windows import SHORT
from tests.simulation.replacements import Function, always, by, without, wrapped
from tests.simulation.scenario import Fault

REPLACES: Final = {"replaces": True}


def _begin_without_heads(
    original: Function, undecided: UndecidedRemovals, replica: Replica
) -> None:
    original(undecided, replica)
    if undecided._heads is not None:
        undecided._heads = Heads()


def _view_without_removals(
    replica: Replica, offset: int, undecided: UndecidedRemovals, expired_before: int
) -> View:
    expired = max(expired_before, replica.expired_for(offset))
    return View(sequence_number(offset, 0), expired, {}, undecided.of(offset))


SEEN: Final[dict[str, Rule]] = {
    "what undecided packets take out is still met": by(removals, "view_of", _view_without_removals),
    "packets that do not count take out": wrapped(
        removals,
        "removing_rows",
        lambda original, columns, *_, replaces: original(columns, replaces=replaces),
    ),
    "the heads are not known of packets that take out": wrapped(
        UndecidedRemovals, "begin", _begin_without_heads
    ),
    "later packets take out as well": by(
        View, "_is_removed", lambda view, name: name in view.removed
    ),
    "what earlier rows of a packet take out is still met": always(view_module, "_removes", False),
    "later rows of a packet take out as well": by(
        view_module, "_removes", lambda removing, own, _row: any(own < each for each in removing)
    ),
    "documents replace those of their id where they should be compared": wrapped(
        removals,
        "removing_rows",
        lambda original, columns, *counting, **_: original(columns, *counting, replaces=True),
    ),
    "a row takes out what comes later in its packet": Tried(
        by(
            view_module,
            "_removes",
            lambda removing, _own, row: any(each <= row for each in removing),
        ),
        REPLACES,
    ),
    "documents do not replace those of their id": Tried(
        wrapped(
            removals,
            "removing_rows",
            lambda original, columns, *counting, **_: original(columns, *counting, replaces=False),
        ),
        REPLACES,
    ),
}


def _unexpired(original: Function, leader: Decider, packet: object, view: View, *rest: Any) -> Any:  # noqa: ANN401 - as they come
    return original(leader, packet, view._replace(expired_before=0), *rest)


def _all_but(columns: DocumentColumns, duplicates: Iterator[int]) -> NDArray[np.bool_]:
    """Return all rows except some, whether they are deletes or documents."""
    rows = np.ones(len(columns), dtype=np.bool_)
    rows[list(duplicates)] = False
    return rows


DECIDED: Final[dict[str, Rule]] = {
    "what shards hold is not reported": by(Reporter, "_held", lambda _reporter, _view: []),
    "what is taken out already is reported": wrapped(
        participant,
        "held",
        lambda original, view, entries: original(view._replace(removed={}), entries),
    ),
    "recent documents are not taken out": by(
        RecentUniques, "with_ids", lambda _recent, ids: [[] for _ in ids]
    ),
    "recent documents that are taken out are still met": without(RecentUniques, "remove"),
    "documents of the same packet are not taken out": by(
        decider, "own_removals", lambda _packet, _view, _unique: iter(())
    ),
    "deletes are unique documents": by(decider, "unique_rows", _all_but),
    "deletes meet documents of their content": by(
        DocumentColumns,
        "repeatable",
        lambda columns: np.flatnonzero(columns.undecidable != 0).tolist(),
    ),
    "what has expired is taken out": Tried(
        wrapped(
            participant,
            "held",
            lambda original, view, entries: original(view._replace(expired_before=0), entries),
        ),
        SHORT,
    ),
    "recent documents that have expired are taken out": Tried(
        wrapped(Decider, "_removals", _unexpired), {"window": Window(0, 0)}
    ),
    "an earlier row takes out a later one": Tried(
        by(
            removals,
            "_first_after",
            lambda row, rows: next((each for each in rows if each != row), None),
        ),
        REPLACES,
    ),
}


def _decided_of_own_shards(
    original: Function, shards: HeldShards[object], offset: int, bundle: Bundle, decision: Decision
) -> None:
    own = {segment.chain.partition for segment in bundle.segments}
    kept = [each for each in decision.removals if each.partition in own]
    original(shards, offset, bundle, msgspec.structs.replace(decision, removals=kept))


def _rows_with_deletes(packet: DecidedPacket, first: int, end: int) -> NDArray[np.intp]:
    low, high = np.searchsorted(packet.packet.columns.offsets, (first, end))
    rows = np.arange(low, high)
    return rows[~np.isin(rows, packet._left_out())]


def _forgotten_removals(
    original: Function, copy: ShardCopy, progress: Progress, removed: Iterable[int]
) -> None:
    removed = [*removed]
    original(copy, progress, removed)
    copy._removed.difference_update(removed)


APPLIED: Final[dict[str, Rule]] = {
    "what is taken out stays in the index": without(DocumentIndex, "remove"),
    "what is taken out before it is committed is still met": Tried(
        wrapped(ShardCopy, "committed", _forgotten_removals),
        {"standbys": True, "kept": 1.0, "faults": only(Fault.CRASH, Fault.REVOKE_ALL, Fault.MOVE)},
    ),
    "what is taken out is met by its content": by(
        ShardCopy,
        "by_content",
        lambda copy, digest: {
            *copy._uncommitted.by_content(digest),
            *copy.store.by_content(digest),
        },
    ),
    "what is taken out is taken out again": by(
        ShardCopy,
        "with_ids",
        lambda copy, ids: [
            {*uncommitted, *stored}
            for uncommitted, stored in zip(
                copy._uncommitted.with_ids(ids), copy.store.by_ids(ids), strict=True
            )
        ],
    ),
    "what is not committed is not taken out": by(
        ShardCopy,
        "with_ids",
        lambda copy, ids: [{*each} - copy._removed for each in copy.store.by_ids(ids)],
    ),
    "a shard is not looked up in for what it has": without(Column, "note"),
    "what is not committed is not noted by id": without(ShardCopy, "note_ids"),
    "a bundle takes out of its own shards alone": wrapped(
        HeldShards, "decided", _decided_of_own_shards
    ),
    "what is taken out is not committed": wrapped(
        ShardStream,
        "_ready",
        lambda original, *arguments: original(*arguments)._replace(removed=[]),
    ),
    "what is taken out before it is put out is committed": by(
        DecidedPacket, "_left_out", lambda packet: [*packet.matches]
    ),
    "what was taken out before the session is committed again": without(ShardStream, "_leave_out"),
    "deletes become entries": by(DecidedPacket, "new_rows", _rows_with_deletes),
    "deletes are added to the index": by(shards, "unique_rows", _all_but),
    "every delete has an output": always(ShardStream, "_has_output", True),
    "a shard is looked up in before its session begins": Tried(
        (
            wrapped(DocumentIndex, "open_slot", lambda original, index, **_: original(index)),
            always(HeldShards, "_takes_part", True),
        ),
        {**SESSIONS_BEGIN_LATE, "standbys": False},
    ),
    "a delete of what has expired is not put out": Tried(
        wrapped(ShardStream, "_has_output", lambda _original, _stream, removing: removing), SHORT
    ),
    "a document that replaces another does not say so": Tried(
        wrapped(
            ShardStream,
            "_logged_verdict",
            lambda original, stream, packet, row: original(
                stream, replace(packet, removing=set()), row
            ),
        ),
        REPLACES,
    ),
}
