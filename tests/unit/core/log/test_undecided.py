"""What is undecided, in the order of the log and by chain."""

from __future__ import annotations

from simhash_core.log.records import Packet, Query
from simhash_core.log.replica import Undecided
from tests.unit.core.log.log_of_records import FAR, chain, packet
from tests.unit.core.log.made_to_order import columns_of


def test_the_next_undecided_is_known_whatever_was_decided() -> None:
    undecided = Undecided()
    sent = packet(FAR[:1])
    for offset in range(5_000):
        undecided.add(offset, sent)
        if offset % 2:
            assert undecided.pop(offset // 2) is sent
            assert undecided.first == offset // 2 + 1
    assert len(undecided) == 2_500
    assert [*undecided] == [*range(2_500, 5_000)]
    assert [*undecided.starting_at(4_998)] == [4_998, 4_999]
    assert undecided.pop(0) is None


def test_undecided_packets_are_known_by_chain() -> None:
    undecided = Undecided()
    query = Query("q", 1, columns_of(FAR[:1]))
    first, gap, second = packet(FAR[:2]), packet(FAR[:1], 7), packet(FAR[:1], 1)
    items: list[Packet | Query] = [query, packet(FAR[:1], partition=1), first, gap, second]
    for offset, item in enumerate(items):
        undecided.add(offset, item)
    assert undecided.first_of(chain(0)) == 2
    assert undecided.first_of(chain(1)) == 1
    assert undecided.head_of(chain(0)) == 2
    assert undecided.head_of(chain(0), 5) == 5
    for offset in range(5):
        assert undecided.pop(offset) is items[offset]
    assert undecided.first is undecided.first_of(chain(0)) is None
    assert undecided.head_of(chain(0), 5) == 5
    assert undecided == {}
