"""The documents of one raw partition are sent once without faults, and output in raw order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from simhash_core.log.records import (
    NO_CONTROL,
    Decision,
    Packet,
    Progress,
    Removal,
    Sender,
    sequence_number,
)
from simhash_core.log.replica import Replica
from simhash_core.log.shard_stream import (
    DecidedPacket,
    Deleted,
    NoVerdict,
    Ready,
    ShardStream,
    Verdict,
)
from tests.unit.core.log.made_to_order import (
    BEGINS,
    FAR,
    batch,
    bundle,
    bundle_of,
    chain,
    control,
    decided,
    found,
    packet,
    replica_of,
)

NOTHING_READ = Replica(0, NO_CONTROL)


@pytest.fixture
def stream() -> ShardStream[str]:
    return ShardStream(Progress(chain(0), 0, 0, NO_CONTROL), "worker")


def sent(
    stream: ShardStream[str],
    replica: Replica = NOTHING_READ,
    *,
    documents: int = 100,
    size: int = 1 << 20,
) -> list[Packet]:
    return [*iter(lambda: stream.next_packet(replica, documents, size), None)]


def ends(packets: list[Packet]) -> list[tuple[int, int]]:
    return [(each.previous, each.last) for each in packets]


def advance(stream: ShardStream[str], following: int) -> None:
    stream.advance(Progress(chain(0), following, 0, NO_CONTROL))


def verdicts(ready: Ready[str]) -> list[str]:
    said = []
    for each in ready.outputs:
        match each.verdict:
            case NoVerdict() as nothing:
                said.append(nothing.name)
            case Verdict(match=original):
                said.append("unique" if original is None else original.original_id)
            case Deleted():
                said.append("deleted")
    return said


def records(ready: Ready[str]) -> list[str]:
    return [each.record for each in ready.outputs]


BATCH_SIZE = 3 * (8 + len("document 0"))
"""The size of the columns of three documents: fingerprints and ids."""


@pytest.mark.parametrize(
    ("documents", "size", "expected"),
    [
        (1, 9_999, [(-1, 0), (0, 1), (1, 3), (3, 5), (5, 6), (6, 9)]),
        (2, 9_999, [(-1, 1), (1, 5), (5, 9)]),
        (3, 9_999, [(-1, 3), (3, 9)]),
        (4, 9_999, [(-1, 5), (5, 9)]),
        (6, 9_999, [(-1, 9)]),
        (6, 1, [(-1, 3), (3, 6), (6, 9)]),
        (6, BATCH_SIZE, [(-1, 3), (3, 9)]),
        (6, BATCH_SIZE + 1, [(-1, 6), (6, 9)]),
    ],
)
def test_packets_have_so_many_documents_and_bytes(
    stream: ShardStream[str], documents: int, size: int, expected: list[tuple[int, int]]
) -> None:
    """The limit of documents cuts within a batch, that of bytes between batches."""
    stream.add(batch([*FAR[:3], None]))
    stream.add(batch([None], 4))
    stream.add(batch([FAR[5], FAR[6]], 5))
    stream.add(batch([None, None, FAR[9]], 7))
    packets = sent(stream, documents=documents, size=size)
    assert ends(packets) == expected
    assert [each.sender for each in packets] == [Sender("worker", n) for n in range(len(expected))]
    offsets = [offset for each in packets for offset in each.columns.offsets.tolist()]
    assert offsets == [0, 1, 2, 5, 6, 9]


def test_whether_the_next_record_waits_for_a_verdict(stream: ShardStream[str]) -> None:
    ready = []
    steps: tuple[Callable[[], object], ...] = (
        lambda: None,
        lambda: stream.add(batch([None, FAR[1], FAR[2], None])),  # no document
        lambda: advance(stream, 1),
        lambda: stream.decided(decided(0, packet(FAR[1:2], 0))),  # decided
        lambda: advance(stream, 2),
        lambda: stream.heads_known(2),  # the log is past it
        lambda: advance(stream, 3),  # no document behind the last one
        lambda: advance(stream, 4),  # nothing was read
    )
    for step in steps:
        step()
        ready.append(stream.next_is_ready())
    assert ready == [False, True, False, True, False, True, True, False]


def test_what_is_in_the_log_is_not_sent(stream: ShardStream[str]) -> None:
    """Sending begins in the middle of a batch, after the documents in the log, decided or not."""
    stream.add(batch(FAR[:6]))
    stream.heads_known(1)
    in_log = [bundle(packet(FAR[:1], partition=1), packet(FAR[2:4], 1)), bundle_of(FAR[2:3], 1)]
    (only,) = sent(stream, replica_of(in_log)[0])
    assert (only.previous, only.last) == (3, 5)
    assert only.columns.offsets.tolist() == [4, 5]


def two_sent(stream: ShardStream[str]) -> list[Packet]:
    stream.add(batch(FAR[:2]))
    packets = sent(stream)
    stream.add(batch(FAR[2:4], 2))
    return packets + sent(stream)


def test_skipped_packet_is_sent_again_with_what_follows(stream: ShardStream[str]) -> None:
    first, second = two_sent(stream)
    stream.skipped(first)
    stream.skipped(second)
    again = sent(stream, documents=3)
    assert ends(again) == [(-1, 2), (2, 3)]
    assert [each.sender.number for each in again] == [2, 3]
    stream.skipped(second)
    assert sent(stream) == []


def test_packet_that_another_forestalled_is_not_sent_again(stream: ShardStream[str]) -> None:
    first, second = two_sent(stream)
    stream.decided(decided(7, packet(FAR[:2], sender=Sender("former", 3))))
    stream.skipped(first)
    assert sent(stream) == []
    stream.decided(decided(9, second))
    assert stream.head == 3


def test_failed_appends_are_one_sending(stream: ShardStream[str]) -> None:
    stream.add(batch(FAR[:3]))
    packets = sent(stream, documents=1)
    stream.lost(packets[0])
    assert ends(sent(stream, documents=1)) == [(-1, 0), (0, 1), (1, 2)]
    stream.lost(packets[1])
    stream.lost(packets[2])
    assert sent(stream) == []


def test_outputs_wait_for_the_first_without_a_verdict(stream: ShardStream[str]) -> None:
    stream.add(batch([FAR[0], None]))
    (first,) = sent(stream)
    stream.add(batch([FAR[2], FAR[3]], 2))
    (second,) = sent(stream)
    stream.heads_known(-1)
    assert stream.ready(10) == Ready([], [], 0, [])
    stream.decided(decided(4, first))
    stream.decided(decided(5, second, [found(1, 1, 5, "original")]))
    ready = stream.ready(10)
    assert records(ready) == [f"record {n}" for n in range(4)]
    assert verdicts(ready) == ["unique", "NO_DOCUMENT", "unique", "original"]
    assert ready.next == 4
    assert [each.sequences.tolist() for each in ready.entries] == [[4 << 16], [5 << 16]]


def test_outputs_are_limited_and_change_nothing(stream: ShardStream[str]) -> None:
    stream.add(batch(FAR[:3]))
    (only,) = sent(stream)
    stream.decided(decided(4, only))
    ready = stream.ready(2)
    assert records(ready) == ["record 0", "record 1"]
    assert [each.rows.tolist() for each in ready.entries] == [[0, 1]]
    assert stream.ready(2).next == ready.next == 2
    advance(stream, 2)
    rest = stream.ready(2)
    assert records(rest) == ["record 2"]
    assert [each.rows.tolist() for each in rest.entries] == [[2]]
    advance(stream, 3)
    assert (stream.waiting, stream.waiting_bytes, stream.read_to) == (0, 0, 2)


def test_document_that_its_packet_does_not_have_is_put_out_without_a_verdict(
    stream: ShardStream[str],
) -> None:
    """The previous owner read the second record as no document, and the third as a document."""
    stream.add(batch([FAR[0], FAR[1], None]))
    former = packet(FAR[:3])
    former = Packet(former.chain, former.sender, -1, 2, former.columns.take(np.array([0, 2])))
    stream.decided(decided(4, former))
    assert verdicts(stream.ready(10)) == ["unique", "READ_OTHERWISE", "unique"]


def test_record_waits_that_an_undecided_packet_may_have_as_a_document(
    stream: ShardStream[str],
) -> None:
    stream.add(batch([None, None, None]))
    assert sent(stream) == []
    former = packet(FAR[:2])
    assert not stream.next_is_ready(former.last)
    assert stream.ready(10, in_log_to=former.last).outputs == []
    assert verdicts(stream.ready(10)) == ["NO_DOCUMENT"] * 3
    stream.decided(decided(4, former))
    assert verdicts(stream.ready(10)) == ["unique", "unique", "NO_DOCUMENT"]


@pytest.mark.parametrize(("following", "position"), [(0, 1), (1, 1), (2, 2), (4, 3)])
def test_position_is_before_what_is_not_put_out(
    stream: ShardStream[str], following: int, position: int
) -> None:
    """Packets at 1 and 2 were decided at 3; once all is output, reading resumes after them."""
    packets = [packet(FAR[:2]), packet(FAR[2:4], 1), packet(FAR[4:5], 3)]
    first, second, third = map(bundle, packets)
    decides = control(0, [Decision(1, []), Decision(2, [])], following=3)
    replica, _ = replica_of([BEGINS, first, second, decides, third])
    for offset in (1, 2):
        stream.decided(decided(offset, packets[offset - 1]))
    assert stream.progress(following, replica) == Progress(chain(0), following, position, 0)


def test_progress_never_needs_more_than_before() -> None:
    """A session that reads from before a shard's position keeps it and its control record."""
    committed = Progress(chain(0), 5, 90, 80)
    stream: ShardStream[str] = ShardStream(committed, "worker")
    replica = Replica(20, 10)
    replica.read(10, control(3, following=9))
    assert stream.progress(5, replica) == committed
    assert stream.progress(6, replica) == Progress(chain(0), 6, 90, 80)


def test_new_session_reads_everything_again(stream: ShardStream[str]) -> None:
    stream.add(batch(FAR[:1]))
    (only,) = sent(stream)
    stream.decided(decided(4, only))
    stream.restart()
    assert stream.ready(10).outputs == []
    stream.decided(decided(4, only))
    ready = stream.ready(10)
    assert verdicts(ready) == ["unique"]
    assert len(ready.entries) == 1


def test_a_decided_packet_has_its_part_of_the_decision_on_a_bundle() -> None:
    """Rows count within the packet; sequence numbers and the decision are the bundle's."""
    sizes = (2, 3, 1)
    joined = bundle(*(packet(FAR[:size], partition=at) for at, size in enumerate(sizes)))
    matches = [found(row, 0, 5, f"original {row}") for row in (0, 1, 2, 4, 5)]
    removals = [Removal(row, 1, row) for row in (1, 2, 3, 3, 5)]
    decision = Decision(7, matches, None, removals)
    parts = [DecidedPacket.of(7, each, decision) for each in joined.packets()]
    originals = [{row: each.original_id for row, each in part.matches.items()} for part in parts]
    assert originals == [
        {0: "original 0", 1: "original 1"},
        {0: "original 2", 2: "original 4"},
        {0: "original 5"},
    ]
    assert [part.removing for part in parts] == [{1}, {0, 1}, {0}]
    assert [part.rows for part in parts] == [{0: 0, 1: 1}, {0: 0, 1: 1, 2: 2}, {0: 0}]


def test_entries_of_a_bundle_have_the_numbers_of_its_rows(stream: ShardStream[str]) -> None:
    """A document that is removed before its output becomes no entry."""
    joined = bundle(packet(FAR[:5], partition=1), packet(FAR[:4]), packet(FAR[:1], partition=2))
    matches = [found(6, 0, 5), found(9, 0, 5)]
    stream.add(batch(FAR[:4]))
    stream.decided(DecidedPacket.of(7, joined.packet(1), Decision(7, matches)))
    stream.remove([sequence_number(7, 8)])
    ready = stream.ready(9)
    assert verdicts(ready) == ["unique", "elsewhere", "unique", "unique"]
    (entries,) = ready.entries
    assert entries.rows.tolist() == [0, 2]
    assert entries.sequences.tolist() == [sequence_number(7, 5), sequence_number(7, 7)]
    assert ready.removed == [sequence_number(7, 8)]
