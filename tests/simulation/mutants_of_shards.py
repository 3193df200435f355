"""Mutants of shards: what they send, put out, commit, and take into the index."""

from __future__ import annotations

from tests.simulation.edits import Edit
from tests.simulation.mutant import Mutant, moves_only, one_edit

STREAM = (
    one_edit(
        "a packet that is lost is not sent again",
        "log.shard_stream:ShardStream.lost",
        "self.send_again()",
        "pass",
    ),
    one_edit(
        "what is sent again begins at what was put out, not at the head",
        "log.shard_stream:ShardStream.next_packet",
        "self._expected_head(replica)",
        "self.next - 1",
    ),
    one_edit(
        "a batch that is partly in the log is sent whole",
        "log.shard_stream:ShardStream.next_packet",
        "columns = columns.take(np.flatnonzero(columns.offsets > self._sent))",
        "pass",
    ),
    one_edit(
        "heads in control records are not learned",
        "log.shard_stream:ShardStream.heads_known",
        "self.head = max(self.head, head)",
        "pass",
    ),
    one_edit(
        "a session begins with what the one before had read",
        "log.shard_stream:ShardStream.restart",
        "self._decided.clear()",
        "pass",
    ),
    one_edit(
        "a record without a verdict is passed over",
        "log.shard_stream:ShardStream.ready",
        "if verdict is None:\n                return self._ready(outputs, end, expired_before)",
        "if verdict is None:\n                continue",
    ),
    one_edit(
        "a document that is sent is put out without a verdict",
        "log.shard_stream:ShardStream._verdict",
        "offset <= self.head",
        "offset <= (self._sent or -1)",
    ),
    one_edit(
        "entries of what is not put out are committed",
        "log.shard_stream:ShardStream._ready",
        "each.new_rows(self.next, end)",
        "each.new_rows(self.next, 1 << 40)",
    ),
    one_edit(
        "entries are committed again and again",
        "log.shard_stream:ShardStream._ready",
        "each.new_rows(self.next, end)",
        "each.new_rows(end - 1, end)",
    ),
    one_edit(
        "duplicates become entries",
        "log.shard_stream:DecidedPacket.new_rows",
        "[*self.matches, *self.removed]",
        "[*self.removed]",
    ),
    one_edit(
        "the position is past what is not put out",
        "log.shard_stream:ShardStream.progress",
        "*needed[:1], ",
        "",
    ),
    one_edit(
        "the position is past what is undecided",
        "log.shard_stream:ShardStream.progress",
        "min([*needed[:1], *undecided[:1], replica.decided_before])",
        "min([*needed[:1], replica.position])",
    ),
    one_edit(
        "the position is the end of what was read, undecided packets of others or not",
        "log.shard_stream:ShardStream.progress",
        "replica.decided_before])",
        "replica.position])",
    ),
    one_edit(
        "the position of a shard that puts nothing out stays",
        "log.shard_stream:ShardStream.progress",
        "if position <= self.committed.position:",
        "if position <= self.committed.position or next_offset == self.next:",
    ),
    one_edit(
        "the position goes back when the log is read again",
        "log.shard_stream:ShardStream.progress",
        "if position <= self.committed.position:",
        "if False:",
    ),
    one_edit(
        "the control record in force goes back when the log is read again",
        "log.shard_stream:ShardStream.progress",
        "next=next_offset)",
        "next=next_offset, control=replica.control_before(self.committed.position))",
    ),
    one_edit(
        "the control record of a position is the latest",
        "log.shard_stream:ShardStream.progress",
        "position, replica.control_before(position)",
        "position, replica.control",
    ),
    one_edit(
        "control records are forgotten that a position needs",
        "log.replica:Replica.forget_before",
        "if at > 1:\n        del self._heeded[: at - 1]",
        "del self._heeded[: at + 1]",
    ),
    one_edit(
        "the control record in force is not needed after a restart",
        "log.records:Progress.needed",
        "self.position if self.control == NO_CONTROL else min(self.position, self.control)",
        "self.position",
    ),
)

SHARDS = (
    one_edit(
        "what is decided is not looked up before it is committed",
        "log.shard_copy:ShardCopy.apply",
        "self._index.add(self.slot, uniques.sequences(rows), prints)",
        "pass",
    ),
    one_edit(
        "undecidable texts are not looked up before they are committed",
        "log.shard_copy:ShardCopy.by_content",
        "{*self._uncommitted.by_content(digest), *self.store.by_content(digest)}",
        "{*self.store.by_content(digest)}",
    ),
    one_edit(
        "what is read again is added again",
        "log.shard_copy:ShardCopy.apply",
        " or decided.offset <= self._applied",
        "",
    ),
    one_edit(
        "what was committed is added again after a restart",
        "log.shard_copy:ShardCopy.apply",
        "columns.offsets >= self._first",
        "columns.offsets >= 0",
    ),
    one_edit(
        "duplicates are added to the index",
        "log.shard_copy:ShardCopy.apply",
        "unique[[match.row for match in matches]] = False",
        "pass",
    ),
    one_edit(
        "uncommitted entries are forgotten with the first commit",
        "log.shard_copy:ShardCopy.committed",
        "if unique.packet.last >= progress.next:\n            break",
        "",
    ),
    one_edit(
        "packets of another topic of the same name count as this one's",
        "log.shard:Shard.decided",
        " and decided.item.chain == self.stream.chain",
        "",
    ),
    one_edit(
        "a shard takes part before its session begins",
        "log.participant:Participant._in_session",
        "if shard.in_session",
        "if True",
    ),
    one_edit(
        "a shard takes verdicts in before its session begins",
        "log.shard:Shard.decided",
        "if self.copy.in_session:\n        self.copy.apply(decided)\n    if self.in_session and",
        "self.copy.apply(decided)\n    if",
        changes=moves_only(),
    ),
    one_edit(
        "a shard that was let go is still looked up in",
        "log.held_shards:HeldShards._forget",
        "self._index.drop_slot(copy.slot)",
        "pass",
    ),
    Mutant(
        "whoever lost the leading shard goes on to lead",
        (
            Edit("log.participant:Participant.drop_shard", "self._lead_no_more()", "pass"),
            Edit(
                "log.participant:Participant._lead_again",
                "if LEADING_SHARD in self.shards",
                "if True",
            ),
        ),
    ),
    one_edit(
        "a packet is reported on by some shards of a worker only",
        "log.held_shards:HeldShards.reported",
        "sorted(copy.partition for copy in self._in_session())",
        "sorted(copy.partition for copy in self._in_session())[:1]",
    ),
)
