"""A budget of work fills up again by and by."""

from __future__ import annotations

from streams.ops_page.access import WorkBudget
from tests.rigs.manual_clock import ManualClock


def test_work_budget_fills_with_time() -> None:
    clock = ManualClock(0)
    budget = WorkBudget(10, 2, clock)
    assert budget.spend(10) == 0
    assert budget.spend(4) == 2
    clock.now = 2
    assert budget.spend(4) == 0
    assert budget.spend(1) == 0.5


def test_work_budget_has_a_maximum() -> None:
    clock = ManualClock(0)
    budget = WorkBudget(10, 2, clock)
    clock.now = 1000
    assert budget.spend(25) == 0
    assert budget.spend(1) == 0.5
