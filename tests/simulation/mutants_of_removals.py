"""Mutants of deletes, and of documents that replace those of their id.

That nothing is looked up before the heads of the chains are known has no mutant: seeds break it too
seldom. ``tests/unit/core/log/test_participant.py`` holds it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from simhash_core.window import Window
from tests.simulation.edits import Edit
from tests.simulation.mutant import Mutant, one_edit, sessions_begin_late
from tests.simulation.rules import KEPT

REPLACES: Final = {"replaces": True}
SHORT: Final = {"window": Window(150, 60)}

SEEN = (
    one_edit(
        "what undecided packets take out is still met",
        "log.removals:views",
        "removed.setdefault(name, sequence_number(offset, rows[0]))",
        "pass",
    ),
    one_edit(
        "packets that do not count take out",
        "log.removals:views",
        "if heads.counts(packet):",
        "if True:",
    ),
    one_edit(
        "the heads are not known of packets that take out",
        "log.removals:views",
        "replica.heads or Heads()",
        "Heads()",
    ),
    one_edit(
        "later packets take out as well",
        "index.view:View.hides",
        "self.removed.get(name, self.first) < self.first",
        "name in self.removed",
    ),
    one_edit(
        "what earlier rows of a packet take out is still met",
        "index.view:View.hides",
        "own < each <= row",
        "False",
    ),
    one_edit(
        "later rows of a packet take out as well",
        "index.view:View.hides",
        "own < each <= row",
        "own < each",
    ),
    one_edit(
        "a row takes out what comes later in its packet",
        "index.view:View.hides",
        "own < each <= row",
        "each <= row",
        REPLACES,
    ),
    one_edit(
        "documents do not replace those of their id",
        "log.removals:removing_rows",
        "range(len(columns)) if replaces else columns.deletes",
        "columns.deletes",
        REPLACES,
    ),
    one_edit(
        "documents replace those of their id where they should be compared",
        "log.removals:removing_rows",
        "range(len(columns)) if replaces else columns.deletes",
        "range(len(columns))",
    ),
)

DECIDED = (
    one_edit(
        "what shards hold is not reported",
        "log.participant:Participant.report",
        "held(view_of[offset], self.held)",
        "[]",
    ),
    one_edit(
        "what is taken out already is reported",
        "log.removals:held",
        "if view.removed.get(name, view.first) >= view.first",
        "",
    ),
    one_edit(
        "what has expired is taken out",
        "log.removals:held",
        "if sequence >= view.expired_before",
        "",
        SHORT,
    ),
    one_edit(
        "recent documents are not taken out",
        "log.decider:Decider._removals",
        "zip(names, self._recent.with_ids(names), strict=True)",
        "()",
    ),
    one_edit(
        "recent documents that have expired are taken out",
        "log.decider:Decider._removals",
        "and sequence >= view.expired_before",
        "",
        {"window": Window(0, 0)},
    ),
    one_edit(
        "recent documents that are taken out are still met",
        "log.decider:Decider._decision",
        "self._recent.remove(removal.sequence)",
        "pass",
    ),
    one_edit(
        "documents of the same packet are not taken out",
        "log.decider:Decider._removals",
        "removals.update(own_removals(packet, view, unique))",
        "pass",
    ),
    one_edit(
        "an earlier row takes out a later one",
        "log.removals:own_removals",
        "if each > row",
        "if each != row",
        REPLACES,
    ),
    one_edit(
        "deletes are unique documents",
        "log.decider:Decider._decision",
        "item.columns.are_documents",
        "np.ones(len(item), dtype=np.bool_)",
    ),
    one_edit(
        "deletes meet documents of their content",
        "document_columns:DocumentColumns.repeatable",
        "if self.operations is not None:",
        "if False:",
    ),
)

APPLIED = (
    one_edit(
        "what is taken out stays in the index",
        "log.shard_copy:ShardCopy.remove",
        "self._index.remove(self.slot, np.array(sequences, dtype=np.uint64))",
        "pass",
    ),
    one_edit(
        "what is taken out before it is committed is still met",
        "log.shard_copy:ShardCopy.remove",
        "self._uncommitted.remove(sequence)",
        "pass",
    ),
    one_edit(
        "what is taken out is met by its content",
        "log.shard_copy:ShardCopy.by_content",
        "return sequences - self._removed",
        "return sequences",
    ),
    one_edit(
        "what is taken out is taken out again",
        "log.shard_copy:ShardCopy.with_ids",
        "{*uncommitted, *stored} - self._removed",
        "{*uncommitted, *stored}",
    ),
    one_edit(
        "what is not committed is not taken out",
        "log.shard_copy:ShardCopy.with_ids",
        "{*uncommitted, *stored}",
        "{*stored}",
    ),
    one_edit(
        "a packet takes out of its own shard alone",
        "log.held_shards:HeldShards.decided",
        "self._remove(partition, sequences)",
        "self._remove(partition, sequences) if partition == packet.chain.partition else None",
    ),
    one_edit(
        "what is taken out is not committed",
        "log.shard_stream:ShardStream._ready",
        "list(self._removed)",
        "[]",
    ),
    one_edit(
        "what is taken out before it is put out is committed",
        "log.shard_stream:DecidedPacket.new_rows",
        "[*self.matches, *self.removed]",
        "[*self.matches]",
    ),
    one_edit(
        "what was taken out before the session is committed again",
        "log.shard_stream:ShardStream.remove",
        "decided.removed.add(index_of(sequence))",
        "pass",
    ),
    one_edit(
        "deletes become entries",
        "log.shard_stream:DecidedPacket.new_rows",
        "if columns.operations is not None:",
        "if False:",
    ),
    one_edit(
        "deletes are added to the index",
        "log.shard_copy:ShardCopy.apply",
        "unique = columns.are_documents",
        "unique = np.ones(len(columns), dtype=np.bool_)",
    ),
    Mutant(
        "a shard is looked up in before its session begins",
        (
            Edit(
                "log.held_shards:HeldShards.fill_slot",
                "self._index.open_slot(visible=False)",
                "self._index.open_slot()",
            ),
            Edit("log.held_shards:HeldShards._in_session", "if copy.in_session", ""),
        ),
        changes={**sessions_begin_late(), "standbys": False},
    ),
    one_edit(
        "no delete is put out",
        "log.shard_stream:ShardStream._said",
        "put_out=removing or self._expires",
        "put_out=False",
    ),
    one_edit(
        "every delete is put out",
        "log.shard_stream:ShardStream._said",
        "put_out=removing or self._expires",
        "put_out=True",
    ),
    one_edit(
        "a delete of what has expired is not put out",
        "log.shard_stream:ShardStream._said",
        "put_out=removing or self._expires",
        "put_out=removing",
        SHORT,
    ),
    one_edit(
        "a document that replaces another does not say so",
        "log.shard_stream:ShardStream._said",
        "packet.matches.get(row), removing)",
        "packet.matches.get(row))",
        REPLACES,
    ),
    Mutant(
        "what is taken out is committed apart from outputs",
        rules=replace(KEPT, removals_with_outputs=False),
    ),
)

REMOVALS = (*SEEN, *DECIDED, *APPLIED)
