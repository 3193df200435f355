"""Mutants of deletes, and of documents that replace those of their id.

That nothing is looked up before the heads of the chains are known has no mutant: seeds break it too
seldom. ``tests/unit/core/log/test_participant.py`` holds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from simhash_core.document_columns import DocumentColumns
from simhash_core.index import look_up as view_module
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.look_up import View
from simhash_core.log import decider, participant, removals, shards
from simhash_core.log.decider import Decider
from simhash_core.log.participant import Reporter
from simhash_core.log.records import Heads
from simhash_core.log.removals import UndecidedRemovals
from simhash_core.log.replica import Decided, Replica
from simhash_core.log.shard_stream import DecidedPacket, ShardStream
from simhash_core.log.shards import HeldShards, ShardCopy
from simhash_core.log.unique_documents import RecentUniques
from simhash_core.window import Window
from tests.simulation.mutant import Mutant, broken, sessions_begin_late
from tests.simulation.replacements import Function, by, by_property, without, wrapped
from tests.simulation.rules import KEPT

REPLACES: Final = {"replaces": True}
SHORT: Final = {"window": Window(150, 60)}


def _begin_without_heads(
    original: Function, undecided: UndecidedRemovals, replica: Replica
) -> None:
    original(undecided, replica)
    if undecided._heads is not None:
        undecided._heads = Heads()


SEEN = (
    broken(
        "what undecided packets take out is still met",
        by(UndecidedRemovals, "before", lambda _undecided, _offset: {}),
    ),
    broken(
        "packets that do not count take out",
        by(UndecidedRemovals, "_counts", lambda _undecided, _packet: True),
    ),
    broken(
        "the heads are not known of packets that take out",
        wrapped(UndecidedRemovals, "begin", _begin_without_heads),
    ),
    broken(
        "later packets take out as well",
        by(View, "_is_removed", lambda view, name: name in view.removed),
    ),
    broken(
        "what earlier rows of a packet take out is still met",
        by(view_module, "_removes", lambda _removing, _own, _row: False),
    ),
    broken(
        "later rows of a packet take out as well",
        by(view_module, "_removes", lambda removing, own, _row: own < removing),
    ),
    broken(
        "a row takes out what comes later in its packet",
        by(view_module, "_removes", lambda removing, _own, row: removing <= row),
        changes=REPLACES,
    ),
    broken(
        "documents do not replace those of their id",
        wrapped(
            removals,
            "removing_rows",
            lambda original, columns, **_: original(columns, replaces=False),
        ),
        changes=REPLACES,
    ),
    broken(
        "documents replace those of their id where they should be compared",
        wrapped(
            removals,
            "removing_rows",
            lambda original, columns, **_: original(columns, replaces=True),
        ),
    ),
)


def _unexpired(original: Function, leader: Decider, packet: object, view: View, *rest: Any) -> Any:  # noqa: ANN401 - as they come
    return original(leader, packet, view._replace(expired_before=0), *rest)


def _all_but(columns: DocumentColumns, duplicates: Iterator[int]) -> NDArray[np.bool_]:
    """Return all rows but some, deletes and documents."""
    rows = np.ones(len(columns), dtype=np.bool_)
    rows[list(duplicates)] = False
    return rows


DECIDED = (
    broken("what shards hold is not reported", by(Reporter, "_held", lambda _reporter, _view: [])),
    broken(
        "what is taken out already is reported",
        wrapped(
            participant,
            "held",
            lambda original, view, entries: original(view._replace(removed={}), entries),
        ),
    ),
    broken(
        "what has expired is taken out",
        wrapped(
            participant,
            "held",
            lambda original, view, entries: original(view._replace(expired_before=0), entries),
        ),
        changes=SHORT,
    ),
    broken(
        "recent documents are not taken out",
        by(RecentUniques, "with_ids", lambda _recent, ids: [[] for _ in ids]),
    ),
    broken(
        "recent documents that have expired are taken out",
        wrapped(Decider, "_removals", _unexpired),
        changes={"window": Window(0, 0)},
    ),
    broken("recent documents that are taken out are still met", without(RecentUniques, "remove")),
    broken(
        "documents of the same packet are not taken out",
        by(decider, "own_removals", lambda _packet, _view, _unique: iter(())),
    ),
    broken(
        "an earlier row takes out a later one",
        by(
            removals,
            "_first_after",
            lambda row, rows: next((each for each in rows if each != row), None),
        ),
        changes=REPLACES,
    ),
    broken("deletes are unique documents", by(decider, "unique_rows", _all_but)),
    broken(
        "deletes meet documents of their content",
        by_property(
            DocumentColumns,
            "repeatable",
            lambda columns: np.flatnonzero(columns.undecidable != 0).tolist(),
        ),
    ),
)


def _decided_of_own_shard(original: Function, shards: HeldShards[object], decided: Decided) -> None:
    own = decided.item.chain.partition  # type: ignore[union-attr]
    kept = [each for each in decided.decision.removals if each.partition == own]
    decision = msgspec.structs.replace(decided.decision, removals=kept)
    original(shards, decided._replace(decision=decision))


def _rows_with_deletes(packet: DecidedPacket, first: int, end: int) -> NDArray[np.intp]:
    low, high = np.searchsorted(packet.packet.columns.offsets, (first, end))
    rows = np.arange(low, high)
    return rows[~np.isin(rows, packet._left_out())]


APPLIED = (
    broken("what is taken out stays in the index", without(DocumentIndex, "remove")),
    broken(
        "what is taken out before it is committed is still met",
        by(ShardCopy, "_hide", lambda copy, sequence: copy._removed.add(sequence)),
    ),
    broken(
        "what is taken out is met by its content",
        by(
            ShardCopy,
            "by_content",
            lambda copy, digest: {
                *copy._uncommitted.by_content(digest),
                *copy.store.by_content(digest),
            },
        ),
    ),
    broken(
        "what is taken out is taken out again",
        by(
            ShardCopy,
            "with_ids",
            lambda copy, ids: [
                {*uncommitted, *stored}
                for uncommitted, stored in zip(
                    copy._uncommitted.with_ids(ids), copy.store.by_ids(ids), strict=True
                )
            ],
        ),
    ),
    broken(
        "what is not committed is not taken out",
        by(
            ShardCopy,
            "with_ids",
            lambda copy, ids: [{*each} - copy._removed for each in copy.store.by_ids(ids)],
        ),
    ),
    broken(
        "a packet takes out of its own shard alone",
        wrapped(HeldShards, "decided", _decided_of_own_shard),
    ),
    broken(
        "what is taken out is not committed",
        wrapped(
            ShardStream,
            "_ready",
            lambda original, *arguments: original(*arguments)._replace(removed=[]),
        ),
    ),
    broken(
        "what is taken out before it is put out is committed",
        by(DecidedPacket, "_left_out", lambda packet: [*packet.matches]),
    ),
    broken(
        "what was taken out before the session is committed again",
        without(ShardStream, "_leave_out"),
    ),
    broken("deletes become entries", by(DecidedPacket, "new_rows", _rows_with_deletes)),
    broken("deletes are added to the index", by(shards, "unique_rows", _all_but)),
    broken(
        "a shard is looked up in before its session begins",
        wrapped(DocumentIndex, "open_slot", lambda original, index, **_: original(index)),
        by(HeldShards, "_takes_part", lambda _shards, _copy: True),
        changes={**sessions_begin_late(), "standbys": False},
    ),
    broken(
        "no delete is put out",
        wrapped(ShardStream, "_is_put_out", lambda _original, _stream, **_: False),
    ),
    broken(
        "every delete is put out",
        wrapped(ShardStream, "_is_put_out", lambda _original, _stream, **_: True),
    ),
    broken(
        "a delete of what has expired is not put out",
        wrapped(ShardStream, "_is_put_out", lambda _original, _stream, removing: removing),
        changes=SHORT,
    ),
    broken(
        "a document that replaces another does not say so",
        wrapped(
            ShardStream,
            "_said",
            lambda original, stream, packet, row: original(
                stream, replace(packet, removing=set()), row
            ),
        ),
        changes=REPLACES,
    ),
    Mutant(
        "what is taken out is committed apart from outputs",
        rules=replace(KEPT, removals_with_outputs=False),
    ),
)

REMOVALS = (*SEEN, *DECIDED, *APPLIED)
