"""The ledger: every arrival must end in exactly one output, told in either order."""

from __future__ import annotations

import random

import pytest

from simhash_core.documents import SourcePosition
from streams.demo.feed import Ledger


def at(offset: int, partition: int = 0) -> SourcePosition:
    """A place on the raw topic."""
    return SourcePosition("raw-documents", partition, offset)


@pytest.mark.parametrize("seed", range(5))
def test_whole_in_any_order(seed: int) -> None:
    """Given arrivals in three partitions and one output of each; when they are told in any order;
    then nothing is lost or repeated, and nothing is open.
    """
    places = [at(offset, partition) for partition in range(3) for offset in range(50)]
    told = [(place, is_output) for place in places for is_output in (True, False)]
    random.Random(seed).shuffle(told)
    ledger = Ledger()

    for place, is_output in told:
        if is_output:
            ledger.note_output(place)
        else:
            ledger.note_sent(place, 100, is_tombstone=False)

    assert (ledger.sent, ledger.outputs, ledger.decided) == (150, 150, 150)
    assert (ledger.lost, ledger.repeated, ledger.open_bytes) == (0, 0, 0)


def test_lost_repeated_and_never_sent() -> None:
    """Given one arrival without an output, one with three, and an output of an arrival that never
    was; then one is lost, and three outputs are too many.
    """
    ledger = Ledger()
    ledger.note_sent(at(0), 10, is_tombstone=False)
    ledger.note_sent(at(1), 20, is_tombstone=False)
    for offset in (1, 1, 1, 99):
        ledger.note_output(at(offset))

    assert (ledger.lost, ledger.repeated) == (1, 3)
    assert ledger.open_bytes == 10


def test_a_tombstone_has_no_output() -> None:
    """Given a tombstone; then it is decided at once, and an output of it would be one too many."""
    ledger = Ledger()
    ledger.note_sent(at(0), 10, is_tombstone=True)

    assert (ledger.decided, ledger.lost, ledger.open_bytes) == (1, 0, 0)

    ledger.note_output(at(0))

    assert ledger.repeated == 1


def test_more_repeats_than_are_counted_one_by_one() -> None:
    """Given a thousand outputs of one arrival; then 999 of them are too many."""
    ledger = Ledger()
    ledger.note_sent(at(0), 10, is_tombstone=False)
    for _ in range(1000):
        ledger.note_output(at(0))

    assert (ledger.lost, ledger.repeated) == (0, 999)
