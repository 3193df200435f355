"""docs/operations.md lists the metrics of the code."""

from __future__ import annotations

import pytest

from docs.metrics_table import markdown_table, with_table
from streams.monitoring.metric_definitions import DEFINITIONS
from tests.repository.source_tree import ROOT

PAGE = ROOT / "docs" / "operations.md"


def test_the_page_has_the_table_of_the_code() -> None:
    """Given the page, then its table is that of the code; ``python
    docs/metrics_table.py docs/operations.md`` brings it up to date.
    """
    assert PAGE.read_text("utf-8") == with_table(PAGE.read_text("utf-8"))


def test_the_table_has_every_metric() -> None:
    """Given the metrics, then each has a row."""
    rows = [line.split("|")[1].strip() for line in markdown_table().splitlines()[2:]]
    assert rows == [f"`{each.name}`" for each in DEFINITIONS]


def test_a_page_without_marks() -> None:
    """Given a page without a place for the table, then it is refused."""
    with pytest.raises(ValueError, match="lacks"):
        with_table("no marks")
