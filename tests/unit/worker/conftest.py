"""Fixtures of the tests of a worker."""

from __future__ import annotations

from tests.unit.worker.hand_driven import quick

__all__ = ["quick"]
