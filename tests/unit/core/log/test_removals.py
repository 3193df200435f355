"""Deletes, documents that replace those of their id, and scopes."""

from __future__ import annotations

import pytest

from simhash_core.documents import masked, scoped_digest
from simhash_core.index.look_up import Nearness, View
from simhash_core.log.records import Control, Packet
from tests.unit.core.log.one_worker import SCHEME, Doc, OneWorker

NEAR = Nearness(SCHEME, None)
SNOW, RAIN = "snow in the mountains", "rain on the coast"


@pytest.fixture
def worker() -> OneWorker:
    return OneWorker(NEAR)


@pytest.fixture
def replacing() -> OneWorker:
    """A worker whose documents replace those of their id."""
    return OneWorker(Nearness(SCHEME, None, replaces=True))


def test_a_delete_takes_the_entry_out(worker: OneWorker) -> None:
    assert worker.says(Doc("a", SNOW)) == ["a unique"]
    assert worker.says(Doc("b", SNOW)) == ["b like a"]
    assert worker.says(Doc("a")) == ["a tombstone"]
    assert worker.says(Doc("c", SNOW), Doc("a")) == ["c unique", "a nothing"]
    assert len(worker.store) == 1


def test_a_duplicate_has_nothing_to_delete(worker: OneWorker) -> None:
    worker.says(Doc("a", SNOW), Doc("b", SNOW))
    assert worker.says(Doc("b")) == ["b nothing"]
    assert worker.says(Doc("c", SNOW)) == ["c like a"]


def test_a_delete_counts_from_its_place_in_a_packet_on() -> None:
    documents = [Doc("a", SNOW), Doc("b", SNOW), Doc("a"), Doc("c", SNOW), Doc("d", SNOW)]
    together, singly = OneWorker(NEAR), OneWorker(NEAR)
    said = together.says(*documents)
    assert said == ["a unique", "b like a", "a tombstone", "c unique", "d like c"]
    assert said == [each for document in documents for each in singly.says(document)]
    assert len(together.store) == len(singly.store) == 1


def test_after_a_delete_the_next_nearest_is_named() -> None:
    worker = OneWorker(Nearness(SCHEME, None, 10, 1_000))
    worker.says(Doc("far", SNOW + "a", 0), Doc("near", SNOW + "c", 15))
    assert worker.says(Doc("x", SNOW + "c", 8)) == ["x like near"]
    assert worker.says(Doc("near"), Doc("y", SNOW + "c", 8)) == ["near tombstone", "y like far"]


def test_all_entries_of_an_id_are_deleted(worker: OneWorker) -> None:
    worker.says(Doc("a", SNOW), Doc("a", RAIN))
    assert len(worker.store) == 2
    worker.says(Doc("a"))
    assert len(worker.store) == 0
    assert worker.says(Doc("b", SNOW), Doc("c", RAIN)) == ["b unique", "c unique"]


def test_with_a_window_every_delete_is_put_out() -> None:
    worker = OneWorker(Nearness(SCHEME, None, 10))
    assert worker.says(Doc("a")) == ["a tombstone"]


def test_a_document_replaces_the_one_of_its_id(replacing: OneWorker) -> None:
    replacing.says(Doc("a", SNOW))
    assert replacing.says(Doc("a", RAIN)) == ["a unique replaced"]
    assert replacing.says(Doc("b", SNOW), Doc("c", RAIN)) == ["b unique", "c like a"]


def test_a_document_that_comes_again_is_no_copy_of_itself(replacing: OneWorker) -> None:
    assert replacing.says(Doc("a", SNOW), Doc("a", SNOW)) == ["a unique", "a unique replaced"]
    assert replacing.says(Doc("a", SNOW)) == ["a unique replaced"]
    assert len(replacing.store) == 1


def test_a_document_may_become_a_duplicate(replacing: OneWorker) -> None:
    replacing.says(Doc("a", SNOW), Doc("b", RAIN))
    assert replacing.says(Doc("b", SNOW)) == ["b like a replaced"]
    assert replacing.says(Doc("b", SNOW)) == ["b like a"]
    assert len(replacing.store) == 1


def test_what_was_taken_out_stays_out_after_a_restart(worker: OneWorker) -> None:
    worker.says(Doc("a", SNOW))
    worker.says(Doc("a"))
    worker.restart()
    assert worker.says(Doc("b", SNOW)) == ["b unique"]


def test_the_log_names_what_was_taken_out(worker: OneWorker) -> None:
    worker.says(Doc("a", SNOW))
    worker.says(Doc("x", RAIN), Doc("a"))
    controls = [record for record in worker.log if isinstance(record, Control)]
    (removal,) = [each for control in controls for d in control.decisions for each in d.removals]
    assert (removal.row, removal.partition) == (1, 0)
    removed = worker.log[removal.sequence >> 16]
    assert isinstance(removed, Packet)
    assert removed.columns.ids[removal.sequence & 0xFFFF] == b"a"


def test_scopes_are_not_compared(worker: OneWorker) -> None:
    assert worker.says(Doc("a", SNOW, scope="x"), Doc("b", SNOW, scope="y"), Doc("c", SNOW)) == [
        "a unique",
        "b unique",
        "c unique",
    ]
    assert worker.says(Doc("d", SNOW, scope="y"), Doc("e", SNOW)) == ["d like b", "e like c"]


def test_a_view_hides_what_is_gone_for_a_row() -> None:
    """Given what is taken out before a packet and in it, then each row sees what is left for it."""
    view = View(100, 10, {b"gone": 50, b"later": 200}, {b"own": [2, 5]})
    assert view.hides(0, 9, "kept")  # expired
    assert not view.hides(0, 10, "kept")
    assert view.hides(0, 20, "gone")
    assert not view.hides(0, 20, "later")  # by a later packet
    assert [view.hides(row, 20, "own") for row in (1, 2, 3)] == [False, True, True]
    assert [view.hides(row, 103, "own") for row in (4, 5)] == [False, True]  # after row 2


A, B = bytes(range(32)), bytes(range(1, 33))


@pytest.mark.parametrize("size", [8, 16, 32, 64])
def test_a_mask_is_taken_off_by_itself(size: int) -> None:
    print_ = bytes(range(size))
    assert masked(print_, "tenant") != print_
    assert masked(masked(print_, "tenant"), "tenant") == print_


def test_within_a_scope_distances_stay() -> None:
    def differing(scope: str) -> int:
        return int.from_bytes(masked(A, scope)) ^ int.from_bytes(masked(B, scope))

    assert differing("x") == differing("y") == differing("")


def test_across_scopes_equal_texts_are_far() -> None:
    prints = [int.from_bytes(masked(A, f"tenant {n}")) for n in range(100)]
    distances = [(a ^ b).bit_count() for at, a in enumerate(prints) for b in prints[:at]]
    assert min(distances) > 80
    assert 127 < sum(distances) / len(distances) < 129


def test_without_a_scope_nothing_changes() -> None:
    assert masked(A, "") == A
    assert masked(b"", "tenant") == b""
    assert scoped_digest(A[:16], "") == A[:16]


def test_digests_are_those_of_a_scope() -> None:
    assert scoped_digest(A[:16], "x") != scoped_digest(A[:16], "y")
    assert scoped_digest(A[:16], "x") == scoped_digest(A[:16], "x")
    assert len(scoped_digest(A[:16], "a name " * 50)) == 16
