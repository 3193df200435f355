"""The documents of one raw partition: sent once if all goes well, put out in raw order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from simhash_core.documents import SourcePosition
from simhash_core.log.records import NO_CONTROL, Decision, Packet, Progress, Sender
from simhash_core.log.replica import Replica
from simhash_core.log.shard_stream import Deleted, NoVerdict, Ready, ShardStream, Verdict
from simhash_core.verdicts import Match
from tests.unit.core.log.log_of_records import (
    BEGINS,
    FAR,
    batch,
    chain,
    control,
    decided,
    packet,
    present,
    replica_of,
)

NOTHING_READ = Replica(0, NO_CONTROL)


@pytest.fixture
def stream() -> ShardStream[str]:
    return ShardStream(Progress(chain(0), 0, 0, NO_CONTROL), "worker")


def sent(stream: ShardStream[str], replica: Replica = NOTHING_READ) -> list[Packet]:
    """All that is to be sent now."""
    return [*iter(lambda: stream.next_packet(replica), None)]


def ends(packets: list[Packet]) -> list[tuple[int, int]]:
    """The raw offsets before and at the end of packets."""
    return [(each.previous, each.last) for each in packets]


def advance(stream: ShardStream[str], following: int) -> None:
    """Commit all records before an offset."""
    stream.advance(Progress(chain(0), following, 0, NO_CONTROL))


def verdicts(ready: Ready[str]) -> list[str]:
    """What is said of each record that is ready."""
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


def test_packets_follow_each_other(stream: ShardStream[str]) -> None:
    stream.add(batch(FAR[:3]))
    stream.add(batch(FAR[3:5], 3))
    packets = sent(stream)
    assert ends(packets) == [(-1, 2), (2, 4)]
    assert [each.sender for each in packets] == [Sender("worker", 0), Sender("worker", 1)]
    assert sent(stream) == []


def test_records_that_are_no_documents_are_covered(stream: ShardStream[str]) -> None:
    """A batch of nothing else is not sent."""
    stream.add(batch([FAR[0], None, FAR[2], None]))
    stream.add(batch([None, None], 4))
    stream.add(batch([FAR[6]], 6))
    packets = sent(stream)
    assert ends(packets) == [(-1, 3), (3, 6)]
    assert packets[0].columns.offsets.tolist() == [0, 2]


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
    """Sending begins in the middle of a batch, after what is in the log, decided or not."""
    stream.add(batch(FAR[:6]))
    stream.heads_known(1)
    in_log = [packet(FAR[2:4], 1), packet(FAR[2:3], 1), packet(FAR[:1], partition=1)]
    (only,) = sent(stream, replica_of(in_log)[0])
    assert (only.previous, only.last) == (3, 5)
    assert only.columns.offsets.tolist() == [4, 5]


def two_sent(stream: ShardStream[str]) -> list[Packet]:
    """Two packets of two documents each, which were sent."""
    stream.add(batch(FAR[:2]))
    stream.add(batch(FAR[2:4], 2))
    return sent(stream)


def test_skipped_packet_is_sent_again_with_what_follows(stream: ShardStream[str]) -> None:
    first, second = two_sent(stream)
    stream.decided(decided(7, first, None))
    stream.decided(decided(8, second, None))
    again = sent(stream)
    assert ends(again) == [(-1, 1), (1, 3)]
    assert [each.sender.number for each in again] == [2, 3]
    stream.decided(decided(9, second, None))
    assert sent(stream) == []


def test_packet_that_another_forestalled_is_not_sent_again(stream: ShardStream[str]) -> None:
    first, second = two_sent(stream)
    stream.decided(decided(7, packet(FAR[:2], sender=Sender("former", 3))))
    stream.decided(decided(8, first, None))
    assert sent(stream) == []
    stream.decided(decided(9, second))
    assert stream.head == 3


def test_failed_appends_are_one_sending(stream: ShardStream[str]) -> None:
    for first in (0, 1, 2):
        stream.add(batch([FAR[first]], first))
    packets = sent(stream)
    stream.lost(packets[0])
    assert ends(sent(stream)) == [(-1, 0), (0, 1), (1, 2)]
    stream.lost(packets[1])
    stream.lost(packets[2])
    assert sent(stream) == []


def test_outputs_wait_for_the_first_without_a_verdict(stream: ShardStream[str]) -> None:
    stream.add(batch([FAR[0], None]))
    stream.add(batch([FAR[2], FAR[3]], 2))
    first, second = sent(stream)
    assert stream.ready(10) == Ready([], [], 0, [])
    stream.decided(decided(4, first))
    source = SourcePosition("raw", 1, 2)
    stream.decided(decided(5, second, [Match(1, 1, 5, "original", source, 0, 0, False, None)]))
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
    """Its former owner read the second record as no document, and the third as one."""
    stream.add(batch([FAR[0], FAR[1], None]))
    former = packet(FAR[:3])
    former = Packet(former.chain, former.sender, -1, 2, former.columns.take(np.array([0, 2])))
    stream.decided(decided(4, former))
    assert verdicts(stream.ready(10)) == ["unique", "READ_OTHERWISE", "unique"]


def test_record_waits_that_an_undecided_packet_may_have_as_a_document(
    stream: ShardStream[str],
) -> None:
    stream.add(batch([None, None, None]))
    former = packet(FAR[:2])
    assert not stream.next_is_ready(former.last)
    assert stream.ready(10, in_log_to=former.last).outputs == []
    assert verdicts(stream.ready(10)) == ["NO_DOCUMENT"] * 3
    stream.decided(decided(4, former))
    assert verdicts(stream.ready(10)) == ["unique", "unique", "NO_DOCUMENT"]


def test_document_beyond_the_head_has_to_wait(stream: ShardStream[str]) -> None:
    stream.add(batch(FAR[:1]))
    stream.heads_known(-1)
    assert stream.ready(10).outputs == []


@pytest.mark.parametrize(("following", "position"), [(0, 1), (1, 1), (2, 2), (4, 3)])
def test_position_is_before_what_is_not_put_out(
    stream: ShardStream[str], following: int, position: int
) -> None:
    """Packets at 1 and 2 were decided at 3; where all is put out, reading goes on after them."""
    packets = [packet(FAR[:2]), packet(FAR[2:4], 1), packet(FAR[4:5], 3)]
    decides = control(0, [Decision(1, []), Decision(2, [])], following=3)
    replica, accepted = replica_of([BEGINS, *packets[:2], decides, packets[2]])
    for each in present(accepted[3]).decided:
        stream.decided(each)
    assert stream.progress(following, replica) == Progress(chain(0), following, position, 0)


def test_progress_never_needs_more_than_before() -> None:
    """A session that reads from before a shard's position leaves it and its control record."""
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
