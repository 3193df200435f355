"""Deletes, documents that replace those of their id, and scopes."""

from __future__ import annotations

import pytest

from simhash_core.documents import masked, scoped_digest
from simhash_core.index.look_up import Nearness, View
from simhash_core.log.records import Bundle, Control
from tests.unit.core.log.made_to_order import SCHEME
from tests.unit.core.log.one_worker import OneWorker, Story, docs

NEAR = Nearness(SCHEME, None)
REPLACES = Nearness(SCHEME, None, replaces=True)
STORIES = {
    "a delete takes the entry out, once": Story(
        NEAR,
        [
            "a=snow: a unique",
            "b=snow: b like a",
            "-a: a tombstone",
            "c=snow -a: c unique, a nothing",
        ],
        1,
    ),
    "a duplicate has nothing to delete": Story(
        NEAR, ["a=snow b=snow: a unique, b like a", "-b: b nothing", "c=snow: c like a"], 1
    ),
    "a delete counts from its place on": Story(
        NEAR,
        [
            "a=snow b=snow: a unique, b like a",
            "-a: a tombstone",
            "c=snow d=snow: c unique, d like c",
        ],
        1,
    ),
    "all entries of an id are deleted": Story(
        NEAR,
        [
            "a=snow a=rain: a unique, a unique",
            "-a: a tombstone",
            "b=snow c=rain: b unique, c unique",
        ],
        2,
    ),
    "a document replaces the one of its id": Story(
        REPLACES,
        ["a=snow: a unique", "a=rain: a unique replaced", "b=snow c=rain: b unique, c like a"],
        2,
    ),
    "a document that comes again is no copy of itself": Story(
        REPLACES, ["a=snow a=snow: a unique, a unique replaced", "a=snow: a unique replaced"], 1
    ),
    "a document may become a duplicate": Story(
        REPLACES,
        ["a=snow b=rain: a unique, b unique", "b=snow: b like a replaced", "b=snow: b like a"],
        1,
    ),
    "what was taken out stays out after a restart": Story(
        NEAR, ["a=snow: a unique", "-a: a tombstone", "restart", "b=snow: b unique"], 1
    ),
    "after a delete the next nearest is named": Story(
        Nearness(SCHEME, None, 10, 1_000),
        [
            "far=snowa near=snowc@15: far unique, near unique",
            "x=snowc@8: x like near",
            "-near y=snowc@8: near tombstone, y like far",
        ],
        1,
    ),
    "with a window every delete is put out": Story(
        Nearness(SCHEME, None, 10), ["-a: a tombstone"], 0
    ),
    "scopes are not compared": Story(
        NEAR,
        [
            "a=snow/x b=snow/y c=snow: a unique, b unique, c unique",
            "d=snow/y e=snow: d like b, e like c",
        ],
        3,
    ),
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_stories_of_deletes_and_scopes(story: Story) -> None:
    story.check()
    story.in_one_packet().check()


def test_the_log_names_what_was_taken_out() -> None:
    worker = OneWorker(NEAR)
    worker.says(*docs("a=snow"))
    worker.says(*docs("x=rain -a"))
    controls = [record for record in worker.log if isinstance(record, Control)]
    (removal,) = [each for control in controls for d in control.decisions for each in d.removals]
    assert (removal.row, removal.partition) == (1, 0)
    removed = worker.log[removal.sequence >> 16]
    assert isinstance(removed, Bundle)
    assert removed.columns.ids[removal.sequence & 0xFFFF] == b"a"


def test_a_view_hides_what_is_gone_for_a_row() -> None:
    """Removals before a packet hide entries from all its rows; those in it, from later rows."""
    view = View(100, 10, {b"gone": 50, b"later": 200}, {b"own": [2, 5]})
    assert view.hides(0, 9, "kept")  # expired
    assert not view.hides(0, 10, "kept")
    assert view.hides(0, 20, "gone")
    assert not view.hides(0, 20, "later")  # by a later packet
    assert [view.hides(row, 20, "own") for row in (1, 2, 3)] == [False, True, True]
    assert [view.hides(row, 103, "own") for row in (4, 5)] == [False, True]  # after row 2


A = bytes(range(32))


@pytest.mark.parametrize("size", [8, 16, 32, 64])
def test_a_mask_is_taken_off_by_itself_and_leaves_distances(size: int) -> None:
    prints = bytes(range(size)), bytes(range(1, size + 1))
    one, other = (masked(each, "tenant") for each in prints)
    assert one != prints[0]
    assert masked(one, "tenant") == prints[0]
    assert int.from_bytes(one) ^ int.from_bytes(other) == (
        int.from_bytes(prints[0]) ^ int.from_bytes(prints[1])
    )


def test_digests_are_those_of_a_scope_if_there_is_one() -> None:
    digests = [scoped_digest(A[:16], scope) for scope in ("x", "y", "a name " * 50)]
    assert len({*digests, A[:16]}) == 4
    assert {len(each) for each in digests} == {16}
    assert digests[0] == scoped_digest(A[:16], "x")
    assert (masked(A, ""), masked(b"", "x"), scoped_digest(A[:16], "")) == (A, b"", A[:16])


def test_across_scopes_equal_texts_are_far() -> None:
    prints = [int.from_bytes(masked(A, f"tenant {n}")) for n in range(100)]
    distances = [(a ^ b).bit_count() for at, a in enumerate(prints) for b in prints[:at]]
    assert min(distances) > 80
    assert 127 < sum(distances) / len(distances) < 129
