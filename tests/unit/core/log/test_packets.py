"""Columns of byte strings, and the chain that packets make."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.document_columns import BytesColumn
from simhash_core.log.records import NO_OFFSET, Heads
from tests.unit.core.log.log_of_records import FAR, chain, packet
from tests.unit.core.log.made_to_order import columns_of


@given(st.lists(st.binary(max_size=9)), st.data())
def test_bytes_column_is_a_list_of_strings(strings: list[bytes], data: st.DataObject) -> None:
    column = BytesColumn.of(strings)
    rows = data.draw(st.lists(st.sampled_from(range(len(strings))))) if strings else []
    assert [*column] == strings == [column[row] for row in range(len(column))]
    assert [*column.take(rows)] == [strings[row] for row in rows]


def test_rows_of_documents_are_documents() -> None:
    columns = columns_of(FAR[:4], first=10)
    taken = columns.take(np.array([1, 3]))
    assert taken.offsets.tolist() == [11, 13]
    assert [taken.document_id(row) for row in range(2)] == ["document 11", "document 13"]
    assert taken.digest(1) == columns.digest(3)
    assert taken.fingerprints.tolist() == columns.fingerprints[[1, 3]].tolist()


@pytest.mark.parametrize(
    ("previous", "counts"), [(4, True), (3, False), (5, False), (NO_OFFSET, False)]
)
def test_packet_counts_only_at_its_place(previous: int, counts: bool) -> None:
    heads = Heads([(chain(0), 4)])
    assert heads.counts(packet(FAR[:9], previous)) is counts


def test_repeated_packet_does_not_count() -> None:
    heads = Heads()
    first = packet(FAR[:2])
    assert heads.counts(first)
    heads.advance(first)
    assert not heads.counts(first)
    assert heads.last(chain(0)) == 1
    assert heads.counts(packet(FAR[:2], previous=1))


def test_chains_are_apart() -> None:
    again = chain(1)._replace(topic_id="second")
    heads = Heads([(chain(1), 7), (chain(0), 3), (again, 2)])
    assert [heads.last(each) for each in (chain(0), chain(1), again)] == [3, 7, 2]
    assert heads.last(chain(2)) == NO_OFFSET
    assert heads.partitions == {0, 1}
    assert heads.items() == [(chain(0), 3), (chain(1), 7), (again, 2)]
