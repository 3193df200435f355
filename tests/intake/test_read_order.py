"""Which records continue a partition: the rules one by one, and a channel that does its worst."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streams.read_order import BEGINS_ANEW, ReadOrder, continuing

PLACE = ("raw", 0)


def arrivals(order: ReadOrder, *offsets: int) -> list[tuple[int, int]]:
    """Records as they arrive: each with what it follows."""
    return [(offset, order.follows(PLACE, offset)) for offset in offsets]


def test_records_in_order_pass() -> None:
    """Given a partition that stands at 5, when 5, 6 and 7 arrive, then all pass and 8 is next."""
    assert continuing(5, arrivals(ReadOrder(), 5, 6, 7)) == ([0, 1, 2], 8, False)


def test_repeated_records_are_left_out() -> None:
    """Given a partition that stands at 5, when 3 to 6 arrive, then 5 and 6 pass."""
    assert continuing(5, arrivals(ReadOrder(), 3, 4, 5, 6)) == ([2, 3], 7, False)


def test_nothing_passes_behind_a_hole() -> None:
    """Given a partition that stands at 5, when 5, 7 and 8 come, then 5 passes, and 6 is missed."""
    assert continuing(5, arrivals(ReadOrder(), 5, 7, 8)) == ([0], 6, True)


def test_a_hole_that_was_filled_is_none() -> None:
    """Given 7 that came too early, when 5, 6 and 7 come after it, then they pass."""
    assert continuing(5, arrivals(ReadOrder(), 7, 5, 6, 7)) == ([1, 2, 3], 8, False)


def test_a_gap_in_the_log_is_no_hole() -> None:
    """Given a fetch that brought 5 and then 9, since a transaction ended and records were compacted
    between, when both arrive, then both pass; and 9 alone does not.
    """
    order = ReadOrder()
    order.fetched(PLACE, [5, 9])
    assert continuing(5, arrivals(order, 5, 9)) == ([0, 1], 10, False)
    assert continuing(5, arrivals(order, 9)) == ([], 5, True)


def test_a_gap_between_two_fetches_is_no_hole() -> None:
    """Given a fetch that ended with 5 and one that began with 9, then 9 follows 5."""
    order = ReadOrder()
    order.fetched(PLACE, [5])
    order.fetched(PLACE, [9])
    assert continuing(5, arrivals(order, 5, 9)).next_offset == 10


def test_a_gap_behind_a_place_that_was_sought_is_no_hole() -> None:
    """Given a partition that is read again from 6, when a fetch brings 9 first, then 9 follows."""
    order = ReadOrder()
    order.restarted(PLACE, 6)
    order.fetched(PLACE, [9])
    assert continuing(6, arrivals(order, 9)) == ([0], 10, False)


def test_what_nobody_knows_is_a_hole() -> None:
    """Given partitions that have moved, when the first fetch brings 9 and 6 is next, then it is not
    believed: the partition has to be read again from 6.
    """
    order = ReadOrder()
    order.fetched(PLACE, [5])
    order.forget()
    order.fetched(PLACE, [9])
    assert continuing(6, arrivals(order, 9)).hole


def test_a_log_made_anew_begins_again() -> None:
    """Given a topic that was deleted and made again, when offsets turn back though nobody sought,
    then its records pass.
    """
    order = ReadOrder()
    order.fetched(PLACE, [700, 701])
    order.fetched(PLACE, [0, 1])
    assert order.follows(PLACE, 0) == BEGINS_ANEW
    assert continuing(702, arrivals(order, 0, 1)) == ([0, 1], 2, False)


def test_gaps_that_were_passed_are_forgotten() -> None:
    """Given a long log full of gaps, when it is passed, then nothing is kept of them."""
    order = ReadOrder()
    for offset in range(0, 10_000, 2):
        order.fetched(PLACE, [offset])
        order.passed(PLACE, offset + 1)
    assert not order._gaps[PLACE]


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=40),
    st.lists(st.sampled_from(["arrives", "is lost", "comes twice", "comes late"]), max_size=200),
    st.integers(1, 7),
)
def test_each_record_passes_once_in_order(
    steps: list[int], fates: list[str], fetch_size: int
) -> None:
    """Given a log with gaps and a way on which records are lost, repeated and delayed, when each
    hole and each tail is read again, then every record passes once, in the order of the log.
    """
    log = [sum(steps[: i + 1]) for i in range(len(steps))]
    order, passed, next_offset, at = ReadOrder(), [], 0, 0
    late: list[int] = []
    order.restarted(PLACE, 0)
    for fate in [*fates, *["arrives"] * (3 * len(log) + 3)]:
        fetched = [offset for offset in log if offset >= at][:fetch_size]
        if fetched:
            order.fetched(PLACE, fetched)
            at = fetched[-1] + 1
        arrived = {"arrives": fetched, "comes twice": fetched * 2}.get(fate, [])
        if fate == "comes late":
            late += fetched
        elif arrived:
            arrived, late = [*late, *arrived], []
        found = continuing(next_offset, arrivals(order, *arrived))
        passed += [arrived[index] for index in found.accepted]
        next_offset = found.next_offset
        order.passed(PLACE, next_offset)
        if found.hole or not fetched:
            order.restarted(PLACE, next_offset)
            at = next_offset
    assert passed == log


def test_where_a_partition_is_done() -> None:
    """Given a partition that was assigned and nothing fetched, then it is done up to where fetches
    begin; with records fetched and none passed, up to the first of them; then up to what passed.
    """
    order = ReadOrder()
    assert order.done(PLACE, None) is None

    order.reached(PLACE, 5)
    assert order.done(PLACE, None) == 5

    order.fetched(PLACE, [5, 6, 7])
    order.reached(PLACE, 8)
    assert order.done(PLACE, None) == 5
    assert order.done(PLACE, 7) == 7


def test_ends_of_transactions_wait_for_nobody() -> None:
    """Given a log that ends with the marker of a transaction, which no fetch hands over, when all
    records before it have passed, then the partition is done to its very end.
    """
    order = ReadOrder()
    order.fetched(PLACE, [5, 6, 7])
    order.reached(PLACE, 9)

    assert order.done(PLACE, 8) == 9
    order.fetched(PLACE, [9])
    assert order.done(PLACE, 8) == 8, "the record behind the marker has yet to be processed"


def test_a_partition_that_is_read_again() -> None:
    """Given a partition that is read again from an offset before, or assigned anew, then nothing
    that was known of its fetches counts.
    """
    order = ReadOrder()
    order.fetched(PLACE, [5, 6, 7])
    order.reached(PLACE, 8)
    order.restarted(PLACE, 6)
    assert order.done(PLACE, 6) == 6

    order.forget()
    assert order.done(PLACE, None) is None
