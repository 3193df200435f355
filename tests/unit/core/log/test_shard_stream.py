"""The documents of one raw partition: sent once if all goes well, put out in raw order."""

from __future__ import annotations

import numpy as np
import pytest

from simhash_core.documents import SourcePosition
from simhash_core.log.records import NO_CONTROL, Decision, LogRecord, Packet, Progress, Sender
from simhash_core.log.replica import Replica
from simhash_core.log.shard_stream import Deleted, NoVerdict, Ready, ShardStream, Verdict
from simhash_core.verdicts import Match
from tests.unit.core.log.log_of_records import (
    FAR,
    batch,
    chain,
    control,
    decided,
    packet,
    replica_of,
)

NOTHING_READ = Replica(0, NO_CONTROL)


def stream_of(following: int = 0, position: int = 0) -> ShardStream[str]:
    """A stream that goes on at a raw offset."""
    return ShardStream(Progress(chain(0), following, position, NO_CONTROL), "worker")


def sent(stream: ShardStream[str], replica: Replica = NOTHING_READ) -> list[Packet]:
    """All that is to be sent now."""
    return [*iter(lambda: stream.next_packet(replica), None)]


def ends(packets: list[Packet]) -> list[tuple[int, int]]:
    return [(each.previous, each.last) for each in packets]


def match(row: int) -> Match:
    return Match(row, 1, 5, "original", SourcePosition("raw", 1, 2), 0, 0, False, None)


def verdicts(ready: Ready[str]) -> list[str]:
    said = []
    for each in ready.outputs:
        match each.verdict:
            case NoVerdict() as nothing:
                said.append(nothing.name)
            case Verdict(match=original):
                said.append("unique" if original is None else original.original_id)
            case Deleted(put_out=put_out):
                said.append("deleted, put out" if put_out else "deleted")
    return said


def test_packets_follow_each_other() -> None:
    stream = stream_of()
    stream.add(batch(FAR[:3]))
    stream.add(batch(FAR[3:5], 3))
    packets = sent(stream)
    assert ends(packets) == [(-1, 2), (2, 4)]
    assert [each.sender for each in packets] == [Sender("worker", 0), Sender("worker", 1)]
    assert sent(stream) == []


def test_records_that_are_no_documents_are_covered() -> None:
    stream = stream_of()
    stream.add(batch([FAR[0], None, FAR[2], None]))
    stream.add(batch([None, None], 4))
    stream.add(batch([FAR[6]], 6))
    packets = sent(stream)
    assert ends(packets) == [(-1, 3), (3, 6)]
    assert packets[0].columns.offsets.tolist() == [0, 2]


def is_next_ready(stream: ShardStream[str]) -> bool:
    return stream.next_is_ready()


def test_whether_the_next_record_waits_for_a_verdict() -> None:
    stream = stream_of()
    assert not is_next_ready(stream)
    stream.add(batch([None, FAR[1], FAR[2], None]))
    assert is_next_ready(stream), "no document"
    stream.advance(Progress(chain(0), 1, 0, NO_CONTROL))
    assert not is_next_ready(stream)
    stream.decided(decided(0, packet(FAR[1:2], 0)))
    assert is_next_ready(stream), "decided"
    stream.advance(Progress(chain(0), 2, 0, NO_CONTROL))
    assert not is_next_ready(stream)
    stream.heads_known(2)
    assert is_next_ready(stream), "the log is past it"
    stream.advance(Progress(chain(0), 3, 0, NO_CONTROL))
    assert is_next_ready(stream), "no document behind the last one"
    stream.advance(Progress(chain(0), 4, 0, NO_CONTROL))
    assert not is_next_ready(stream), "nothing was read"


def test_what_is_in_the_log_is_not_sent() -> None:
    stream = stream_of()
    stream.add(batch(FAR[:6]))
    stream.heads_known(1)
    replica, _ = replica_of(
        [packet(FAR[2:4], 1), packet(FAR[2:3], 1), packet(FAR[:1], partition=1)]
    )
    (only,) = sent(stream, replica)
    assert (only.previous, only.last) == (3, 5)
    assert only.columns.offsets.tolist() == [4, 5]


def test_skipped_packet_is_sent_again_with_what_follows() -> None:
    stream = stream_of()
    stream.add(batch(FAR[:2]))
    stream.add(batch(FAR[2:4], 2))
    first, second = sent(stream)
    stream.decided(decided(7, first, None))
    stream.decided(decided(8, second, None))
    again = sent(stream)
    assert ends(again) == [(-1, 1), (1, 3)]
    assert [each.sender.number for each in again] == [2, 3]
    stream.decided(decided(9, second, None))
    assert sent(stream) == []


def test_packet_that_another_forestalled_is_not_sent_again() -> None:
    stream = stream_of()
    stream.add(batch(FAR[:2]))
    stream.add(batch(FAR[2:4], 2))
    first, second = sent(stream)
    stream.decided(decided(7, packet(FAR[:2], sender=Sender("former", 3))))
    stream.decided(decided(8, first, None))
    assert sent(stream) == []
    stream.decided(decided(9, second))
    assert stream.head == 3


def test_failed_appends_are_one_sending() -> None:
    stream = stream_of()
    for first in (0, 1, 2):
        stream.add(batch([FAR[first]], first))
    packets = sent(stream)
    stream.lost(packets[0])
    assert ends(sent(stream)) == [(-1, 0), (0, 1), (1, 2)]
    stream.lost(packets[1])
    stream.lost(packets[2])
    assert sent(stream) == []


def test_outputs_wait_for_the_first_without_a_verdict() -> None:
    stream = stream_of()
    stream.add(batch([FAR[0], None]))
    stream.add(batch([FAR[2], FAR[3]], 2))
    first, second = sent(stream)
    assert stream.ready(10) == Ready([], [], 0, [])
    stream.decided(decided(4, first))
    stream.decided(decided(5, second, [match(1)]))
    ready = stream.ready(10)
    assert [each.record for each in ready.outputs] == [f"record {n}" for n in range(4)]
    assert verdicts(ready) == ["unique", "NO_DOCUMENT", "unique", "original"]
    assert ready.next == 4
    assert [each.sequences.tolist() for each in ready.entries] == [[4 << 16], [5 << 16]]


def test_outputs_are_limited_and_change_nothing() -> None:
    stream = stream_of()
    stream.add(batch(FAR[:3]))
    (only,) = sent(stream)
    stream.decided(decided(4, only))
    ready = stream.ready(2)
    assert [each.record for each in ready.outputs] == ["record 0", "record 1"]
    assert [each.rows.tolist() for each in ready.entries] == [[0, 1]]
    assert stream.ready(2).next == ready.next == 2
    stream.advance(Progress(chain(0), 2, 0, NO_CONTROL))
    rest = stream.ready(2)
    assert [each.record for each in rest.outputs] == ["record 2"]
    assert [each.rows.tolist() for each in rest.entries] == [[2]]
    stream.advance(Progress(chain(0), 3, 0, NO_CONTROL))
    assert (stream.waiting, stream.waiting_bytes, stream.read_to) == (0, 0, 2)


def test_document_that_its_packet_does_not_have_is_put_out_without_a_verdict() -> None:
    stream = stream_of()
    stream.add(batch([FAR[0], FAR[1], None]))
    former = packet([FAR[0], FAR[1], FAR[2]])
    former = Packet(former.chain, former.sender, -1, 2, former.columns.take(np.array([0, 2])))
    stream.decided(decided(4, former))
    assert verdicts(stream.ready(10)) == ["unique", "READ_OTHERWISE", "unique"]


def test_record_waits_that_an_undecided_packet_may_have_as_a_document() -> None:
    stream = stream_of()
    stream.add(batch([None, None, None]))
    former = packet(FAR[:2])
    assert not stream.next_is_ready(former.last)
    assert stream.ready(10, in_log_to=former.last).outputs == []
    assert verdicts(stream.ready(10)) == ["NO_DOCUMENT"] * 3
    stream.decided(decided(4, former))
    assert verdicts(stream.ready(10)) == ["unique", "unique", "NO_DOCUMENT"]


def test_document_beyond_the_head_has_to_wait() -> None:
    stream = stream_of()
    stream.add(batch(FAR[:1]))
    stream.heads_known(-1)
    assert stream.ready(10).outputs == []


@pytest.mark.parametrize(("following", "position"), [(0, 1), (1, 1), (2, 2), (4, 3)])
def test_position_is_before_what_is_not_put_out(following: int, position: int) -> None:
    records: list[LogRecord] = [
        control(NO_CONTROL, leads=True),
        packet(FAR[:2]),
        packet(FAR[2:4], 1),
        control(0, [Decision(1, []), Decision(2, [])], following=3),
        packet(FAR[4:5], 3),
    ]
    stream = stream_of()
    replica, accepted = replica_of(records)
    assert accepted[3] is not None
    for each in accepted[3].decided:
        stream.decided(each)
    assert stream.progress(following, replica) == Progress(chain(0), following, position, 0)


def test_progress_never_needs_more_than_before() -> None:
    committed = Progress(chain(0), 5, 90, 80)
    stream: ShardStream[str] = ShardStream(committed, "worker")
    replica = Replica(20, 10)
    replica.read(10, control(3, following=9))
    assert stream.progress(5, replica) == committed
    assert stream.progress(6, replica) == Progress(chain(0), 6, 90, 80)


def test_new_session_reads_everything_again() -> None:
    stream = stream_of()
    stream.add(batch(FAR[:1]))
    (only,) = sent(stream)
    stream.decided(decided(4, only))
    stream.restart()
    assert stream.ready(10).outputs == []
    stream.decided(decided(4, only))
    ready = stream.ready(10)
    assert len(ready.outputs) == len(ready.entries) == 1
    assert isinstance(ready.outputs[0].verdict, Verdict)
