"""What may go wrong with a contest."""

from __future__ import annotations


class ContestError(Exception):
    """A run that did not end as it should: its figures would say nothing."""
