"""The documents of one raw partition are sent once without faults, and output in raw order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from simhash_core.log.records import NO_CONTROL, Packet, Progress, Sender
from simhash_core.log.replica import Replica
from simhash_core.log.shard_stream import (
    CHAIN_END,
    Deleted,
    NoVerdict,
    Ready,
    ShardStream,
    Verdict,
)
from tests.unit.core.log.made_to_order import FAR, Made, batch, bundle, chain, decided, packet


@pytest.fixture
def stream() -> ShardStream[str]:
    return ShardStream(Progress(chain(0), 0, 0, NO_CONTROL), "worker")


def sent(stream: ShardStream[str], documents: int = 100, size: int = 1 << 20) -> list[Packet]:
    nothing_read = Replica(0, NO_CONTROL)
    return [*iter(lambda: stream.next_packet(nothing_read, documents, size), None)]


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


def test_outputs_are_limited_and_change_nothing(stream: ShardStream[str]) -> None:
    stream.add(batch(FAR[:3]))
    (only,) = sent(stream)
    stream.decided(decided(4, only))
    ready = stream.ready(2)
    assert records(ready) == ["record 0", "record 1"]
    assert [each.rows.tolist() for each in ready.entries] == [[0, 1]]
    assert stream.ready(2).next == ready.next == 2
    assert ready.absent == [], "the third record is there, but is not put out yet"
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


def test_a_shard_goes_on_behind_records_that_are_gone_once_all_in_the_log_are_decided(
    stream: ShardStream[str],
) -> None:
    """Otherwise it would need the log from there on until a record follows, perhaps for ever."""
    stream.add(batch(FAR[:1]))
    stream.decided(decided(4, packet(FAR[:1])))
    former = packet(FAR[1:3], 0)
    stream.gone_before(5)
    assert stream.ready(10, in_log_to=former.last).next == 1
    stream.decided(decided(5, former))
    ready = stream.ready(10)
    assert (verdicts(ready), ready.next) == (["unique"], 5)
    assert ready.absent == [1, 2]
    assert [(each.log_offset, len(each.rows)) for each in ready.entries] == [(4, 1), (5, 2)]
    advance(stream, 5)
    assert (stream.read_to, stream.ready(10).next) == (4, 5)


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


# ---- records that brokers lost

OTHERS = [each._replace(content=b"other %d" % number) for number, each in enumerate(FAR)]


def end_of(stream: ShardStream[str], next_chain: int) -> Packet:
    stream.end_chain(next_chain, 1)
    (end,) = sent(stream)
    return end


def test_a_record_does_not_get_the_verdict_of_a_lost_one(stream: ShardStream[str]) -> None:
    """The log has three documents of a former owner; the last two are others now."""
    stream.decided(decided(4, packet(FAR[:3])))
    stream.add(batch([FAR[0], *OTHERS[5:8]]), compares=True)
    assert verdicts(stream.ready(10)) == ["unique"]
    assert sent(stream) == [], "later documents belong to the next chain"
    end = end_of(stream, stream.differs_at)
    assert (end.previous, end.last, len(end)) == (2, CHAIN_END, 1)
    stream.decided(decided(5, end))

    ready = stream.ready(10)
    progress = stream.progress(ready, Replica(0, NO_CONTROL))
    assert (verdicts(ready), ready.absent, ready.ends_chain) == (["unique"], [1, 2], True)
    assert [len(each.rows) for each in ready.entries] == [3]
    assert (progress.chain, progress.next) == (chain(0).after_loss(), 1)
    assert not stream.is_over
    stream.advance(progress)
    assert stream.is_over


@pytest.mark.parametrize("now", [None, OTHERS[5]])
def test_an_undecided_record_of_the_log_is_compared_before_later_ones_are_sent(
    stream: ShardStream[str], now: Made | None
) -> None:
    replica = Replica(0, NO_CONTROL)
    replica.read(0, bundle(packet(FAR[:2])), 0)
    stream.add(batch([FAR[0], now, FAR[7]]), compares=True)
    assert stream.next_packet(replica) is None
    assert stream.differs_at == 1


def test_a_lost_record_that_is_sent_again_is_the_same(stream: ShardStream[str]) -> None:
    stream.decided(decided(4, packet(FAR[:2])))
    again = [each._replace(time_ms=5_000) for each in FAR[:2]]
    stream.add(batch([*again, FAR[2]]), compares=True)
    assert verdicts(stream.ready(10)) == ["unique", "unique"]
    assert ends(sent(stream)) == [(1, 2)]


def test_nothing_is_compared_after_a_change_of_the_reading_rules(
    stream: ShardStream[str],
) -> None:
    stream.decided(decided(4, packet(FAR[:1])))
    stream.add(batch(OTHERS[5:7]))
    assert ends(sent(stream)) == [(0, 1)]


def test_what_was_read_of_lost_records_is_output_before_the_chain_ends(
    stream: ShardStream[str],
) -> None:
    stream.add(batch([FAR[0], None]), compares=True)
    (own,) = sent(stream)
    end = end_of(stream, 0)
    stream.decided(decided(4, own))
    assert not stream.ready(10).ends_chain
    stream.decided(decided(5, end))
    assert not stream.ready(1).ends_chain
    ready = stream.ready(10)
    assert (verdicts(ready), ready.ends_chain) == (["unique", "NO_DOCUMENT"], True)


def test_documents_behind_an_end_of_another_worker_are_of_the_next_chain(
    stream: ShardStream[str],
) -> None:
    """A former owner that stood still has ended the chain."""
    stream.decided(decided(4, packet(FAR[:1])))
    stream.decided(decided(5, replace(packet(FAR[1:2], 0), last=CHAIN_END)))
    stream.add(batch([FAR[0], None, FAR[2]]), compares=True)
    assert (stream.has_end, sent(stream)) == (True, [])
    stream.cut()
    assert stream.differs_at == 2
    stream.end_chain(2, 1)
    ready = stream.ready(10)
    assert (verdicts(ready), ready.ends_chain) == (["unique", "NO_DOCUMENT"], True)
