"""Bundles and their packets, and the heads of chains."""

from __future__ import annotations

import numpy as np
import pytest

from simhash_core.documents import SourcePosition
from simhash_core.log.records import (
    NO_OFFSET,
    ChainHeads,
    Heads,
    Sender,
    entry_of,
    index_of,
    log_offset_of,
    sequence_number,
    sequence_numbers,
)
from tests.unit.core.log.log_of_records import FAR, bundle, chain, packet


def test_sequence_numbers_rise_with_offset_and_row() -> None:
    last_row = (1 << 16) - 1
    numbers = [sequence_number(*each) for each in ((0, 0), (0, last_row), (1, 0), (1 << 47, 9))]
    assert numbers == sorted(set(numbers))
    assert (log_offset_of(numbers[3]), index_of(numbers[3])) == (1 << 47, 9)
    rows = np.array([0, 3])
    assert sequence_numbers(numbers[3], rows).tolist() == [numbers[3], numbers[3] + 3]


def test_packets_come_back_out_of_their_bundle() -> None:
    sizes = {4: 2, 0: 1, 7: 3}
    packets = [
        packet(FAR[:size], 10 * partition, partition, Sender("worker", number))
        for number, (partition, size) in enumerate(sizes.items())
    ]
    joined = bundle(*packets)
    assert (len(joined), joined.worker) == (6, "worker")
    for made, first, again in zip(packets, (0, 2, 3), joined.packets(), strict=True):
        assert (again.chain, again.sender) == (made.chain, made.sender)
        assert (again.previous, again.last, again.first) == (made.previous, made.last, first)
        assert [*again.columns.ids] == [*made.columns.ids]
        for row in range(len(made)):
            source = SourcePosition("raw", made.chain.partition, made.previous + 1 + row)
            assert again.source(row) == joined.source(first + row) == source
            assert entry_of(again, row) == entry_of(joined, first + row) == entry_of(made, row)
    assert [each.first for each in (joined.packet(2), joined)] == [3, 0]


def test_a_bundle_of_one_packet_has_its_columns() -> None:
    made = packet(FAR[:2], partition=3)
    assert bundle(made).packet(0).columns is made.columns


def test_rows_without_those_of_some_packets() -> None:
    joined = bundle(packet(FAR[:2]), packet(FAR[:1], partition=1), packet(FAR[:2], partition=2))
    rows = {skipped: joined.rows_without(skipped).tolist() for skipped in ((), (1,), (0, 2))}
    assert rows == {
        (): [True] * 5,
        (1,): [True, True, False, True, True],
        (0, 2): [False, False, True, False, False],
    }


@pytest.mark.parametrize(
    ("previous", "counts"), [(4, True), (3, False), (5, False), (NO_OFFSET, False)]
)
def test_packet_counts_only_at_its_place(previous: int, counts: bool) -> None:
    heads = Heads(ChainHeads.of([(chain(0), 4)]))
    assert heads.counts(packet(FAR[:9], previous)) is counts


def test_packets_of_a_bundle_count_each_by_itself() -> None:
    heads = Heads(ChainHeads.of([(chain(1), 3), (chain(2), 5)]))
    sent = bundle(
        packet(FAR[:2], 5, 2), packet(FAR[:2], 1, 1), packet(FAR[:1]), packet(FAR[:1], 0, 5)
    )
    assert heads.take(sent) == [1, 3]
    after = [(chain(0), 0), (chain(1), 3), (chain(2), 7)]
    assert [*heads.columns().items()] == after
    assert heads.take(sent) == [0, 1, 2, 3]
    assert heads.columns() == ChainHeads.of(reversed(after))
    assert heads.take(bundle(packet(FAR[:1], 0), packet(FAR[:1], 3, 1))) == []


def test_chains_are_apart() -> None:
    again = chain(1)._replace(topic_id="second")
    heads = Heads(ChainHeads.of([(chain(1), 7), (chain(0), 3), (again, 2)]))
    assert [heads.last(each) for each in (chain(0), chain(1), again)] == [3, 7, 2]
    assert heads.last(chain(2)) == NO_OFFSET
    assert heads.partitions == {0, 1}
    assert [*heads.columns().items()] == [(chain(0), 3), (chain(1), 7), (again, 2)]


def test_columns_of_heads_do_not_change_with_them() -> None:
    begins = ChainHeads.of([(chain(1), 7)])
    heads = Heads(begins)
    before = heads.columns()
    assert heads.take(bundle(packet(FAR[:1], 7, 1), packet(FAR[:1]))) == []
    assert begins == before == ChainHeads.of([(chain(1), 7)])
    assert heads.columns() == ChainHeads.of([(chain(0), 0), (chain(1), 8)])
    assert heads.partitions == {0, 1}
