"""A budget of work fills up again by and by."""

from __future__ import annotations

from streams.ops_page.access import WorkBudget
from tests.rigs.manual_clock import ManualClock


def test_what_is_spent_comes_back_with_time() -> None:
    """Given a budget of 10 that fills by 2 a second, when 10 are spent, then 4 cost a wait of 2 s,
    and after these seconds they can be had.
    """
    clock = ManualClock(0)
    budget = WorkBudget(10, 2, clock)

    assert budget.spend(10) == 0
    assert budget.spend(4) == 2
    clock.now = 2
    assert budget.spend(4) == 0
    assert budget.spend(1) == 0.5


def test_it_is_never_fuller_than_full() -> None:
    """Given a long rest, then there is as much as at the beginning, and a request for more than
    that takes all.
    """
    clock = ManualClock(0)
    budget = WorkBudget(10, 2, clock)

    clock.now = 1000
    assert budget.spend(25) == 0
    assert budget.spend(1) == 0.5
