"""Mutants of shards: what they send, output, commit, and add to the index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from simhash_core.index.document_index import DocumentIndex
from simhash_core.log import shard_stream, shards
from simhash_core.log.participant import Participant
from simhash_core.log.records import Progress
from simhash_core.log.replica import Replica
from simhash_core.log.shard_stream import DecidedPacket, ShardStream
from simhash_core.log.shards import HeldShards, OwnedShard, ShardCopy
from tests.simulation.mutant import MOVES_ONLY, Rule, Tried
from tests.simulation.replacements import Function, Replacement, always, by, without, wrapped

BEYOND = 1 << 40
"""A raw offset above all others."""

Stream = ShardStream[object]


def _restart(stream: Stream) -> None:
    """Begin a session, but keep the head that was read in the session before."""
    stream._decided.clear()
    stream._removed.clear()
    stream._note_output()
    stream.send_again()


def _position_of_own(stream: Stream, next_offset: int, replica: Replica) -> int:
    """Return a position without regard to undecided packets of others."""
    own = stream._first_waiting(next_offset), replica.undecided.first_of(stream.chain)
    return min(each for each in (*own, replica.position) if each is not None)


def progress_as(
    change: Callable[[Stream, Progress, Replica], Mapping[str, object]],
) -> Replacement:
    """Change fields of the progress that a stream is to commit."""

    def progress(original: Function, stream: Stream, end: int, replica: Replica) -> Progress:
        kept: Progress = original(stream, end, replica)
        return msgspec.structs.replace(kept, **change(stream, kept, replica))

    return wrapped(ShardStream, "progress", progress)


def _committed_position(stream: Stream, progress: Progress, _: Replica) -> Mapping[str, object]:
    if progress.next != stream.next:
        return {}
    return {**msgspec.structs.asdict(stream.committed), "next": progress.next}


def _control_read(stream: Stream, progress: Progress, replica: Replica) -> Mapping[str, object]:
    if progress.position > stream.committed.position:
        return {}
    return {"control": replica.control_before(stream.committed.position)}


def _latest_control(stream: Stream, progress: Progress, replica: Replica) -> Mapping[str, object]:
    is_later = progress.position > stream.committed.position
    return {"control": replica.control} if is_later else {}


STREAM: Final[dict[str, Rule]] = {
    "a packet that is lost is not sent again": without(ShardStream, "lost"),
    "what is sent again begins at what was put out, not at the head": by(
        ShardStream, "_expected_head", lambda stream, _replica: stream.next - 1
    ),
    "a batch that is partly in the log is sent whole": by(
        ShardStream, "_after_sent", lambda _stream, columns, _sent: columns
    ),
    "heads in control records are not learned": without(ShardStream, "heads_known"),
    "a session begins with the head that the one before had read": by(
        ShardStream, "restart", _restart
    ),
    "a record without a verdict is passed over": by(
        ShardStream,
        "_outputs",
        lambda stream, in_log_to: filter(
            shard_stream._has_verdict, stream._with_verdicts(in_log_to)
        ),
    ),
    "a document that is sent is put out without a verdict": by(
        ShardStream, "_is_decided", lambda stream, offset: offset <= (stream._sent or -1)
    ),
    "entries of what is not put out are committed": wrapped(
        DecidedPacket,
        "new_rows",
        lambda original, packet, first, _end: original(packet, first, BEYOND),
    ),
    "entries are committed again and again": wrapped(
        DecidedPacket, "new_rows", lambda original, packet, _first, end: original(packet, 0, end)
    ),
    "duplicates become entries": by(DecidedPacket, "_left_out", lambda packet: [*packet.removed]),
    "the position is past what is not put out": always(ShardStream, "_first_waiting", None),
    "the position is the end of what was read, undecided packets of others or not": by(
        ShardStream, "_position", _position_of_own
    ),
    "the position of a shard that puts nothing out stays": progress_as(_committed_position),
    "the position goes back when the log is read again": always(
        ShardStream, "_is_after_committed", True
    ),
    "the control record in force goes back when the log is read again": progress_as(_control_read),
    "the control record of a position is the latest": progress_as(_latest_control),
    "control records are forgotten that a position needs": wrapped(
        Replica,
        "_unneeded_controls",
        lambda original, replica, position: original(replica, position) + 2,
    ),
    "the control record in force is not needed after a restart": by(
        Progress, "needed", lambda progress: progress.position
    ),
}


def _all_in_session(worker: Participant[object], partitions: Iterable[int]) -> Iterator[object]:
    return (worker.shards[each] for each in sorted(partitions) if each in worker.shards)


def _apply_at_once(shard: OwnedShard[object], decided: DecidedPacket) -> None:
    shard.copy.apply(decided)
    if decided.packet.chain == shard.stream.chain:
        shard.stream.decided(decided)


def _init_without_first(original: Function, copy: ShardCopy, *arguments: object) -> None:
    original(copy, *arguments)
    copy._first = 0


def _committed_for_good(
    original: Function, copy: ShardCopy, progress: Progress, removed: Iterable[int]
) -> None:
    original(copy, msgspec.structs.replace(progress, next=BEYOND), removed)


def _lead_on(worker: Participant[object]) -> None:
    if worker.decider is not None and worker.decider.succeeded:
        worker.decider = worker._new_decider()


def _first_reported(shards: HeldShards[object]) -> list[int]:
    return sorted(each.partition for each in shards._in_session())[:1]


SHARDS: Final[dict[str, Rule]] = {
    "what is decided is not looked up before it is committed": without(ShardCopy, "_show"),
    "undecidable texts are not looked up before they are committed": by(
        ShardCopy,
        "by_content",
        lambda copy, digest: {*copy.store.by_content(digest)} - copy._removed,
    ),
    "what is read again is added again": always(ShardCopy, "_was_applied", False),
    "what was committed is added again after a restart": wrapped(
        ShardCopy, "__init__", _init_without_first
    ),
    "duplicates are added to the index": by(
        shards, "unique_rows", lambda columns, _duplicates: columns.are_documents
    ),
    "uncommitted entries are forgotten with the first commit": wrapped(
        ShardCopy, "committed", _committed_for_good
    ),
    "packets of another topic of the same name count as this one's": always(
        OwnedShard, "_is_own", True
    ),
    "a shard takes part before its session begins": by(Participant, "_in_session", _all_in_session),
    "a shard that was let go is still looked up in": without(DocumentIndex, "drop_slot"),
    "whoever lost the leading shard goes on to lead": (
        by(Participant, "drop_shard", lambda worker, partition: worker.held.drop(partition)),
        by(Participant, "_lead_again", _lead_on),
    ),
    "a packet is reported on by some shards of a worker only": by(
        HeldShards, "reported", _first_reported
    ),
    "a shard takes verdicts in before its session begins": Tried(
        by(OwnedShard, "decided", _apply_at_once), MOVES_ONLY
    ),
}
