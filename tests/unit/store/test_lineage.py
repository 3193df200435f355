from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from streams.store.lineage import UNKNOWN, WRITERS_MAX, Lineage

writers = st.lists(st.sampled_from(["first", "second", "third"]), min_size=1, max_size=40)


def lineage_of(made_by: list[str], before: Lineage = UNKNOWN) -> Lineage:
    for writer in made_by:
        before = before.next(writer)
    return before


@given(writers, writers)
def test_later_commits_continue_earlier_ones_but_not_the_reverse(
    before: list[str], after: list[str]
) -> None:
    earlier = lineage_of(before)
    later = lineage_of(after, earlier)
    assert later.continues(earlier) == (len(later.writers) < WRITERS_MAX or _knows(later, earlier))
    assert earlier.continues(earlier)
    assert not earlier.continues(later)


def _knows(later: Lineage, earlier: Lineage) -> bool:
    """Return whether the writers that are still named reach back to an earlier commit."""
    return later.writers[0][0] <= earlier.commit


@given(writers, writers, writers)
def test_commits_of_another_writer_do_not_continue_lost_ones(
    kept: list[str], lost: list[str], others: list[str]
) -> None:
    ahead = lineage_of([f"lost {writer}" for writer in lost], lineage_of(kept))
    assert not lineage_of(others, lineage_of(kept)).continues(ahead)


def test_a_lineage_has_a_bound_and_is_not_sure_of_what_is_older() -> None:
    earlier = lineage_of(["first"])
    later = lineage_of([f"writer {number}" for number in range(WRITERS_MAX)], earlier)
    assert len(later.writers) == WRITERS_MAX
    assert len(msgspec.msgpack.encode(later)) < 12 * WRITERS_MAX
    assert not later.continues(earlier)


def test_a_release_that_did_not_count_is_trusted() -> None:
    assert lineage_of(["first"]).continues(UNKNOWN)
    assert UNKNOWN.continues(lineage_of(["first"]))


@given(writers)
def test_the_last_commit_is_of_the_last_writer(made_by: list[str]) -> None:
    lineage = lineage_of(made_by)
    assert [name for name in ("first", "second", "third") if lineage.is_of(name)] == made_by[-1:]
    assert not UNKNOWN.is_of("first")
