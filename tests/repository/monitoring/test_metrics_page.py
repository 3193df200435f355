"""docs/operations.md lists the metrics of the code."""

from __future__ import annotations

import pytest

from docs.metrics_table import markdown_table, with_table
from streams.monitoring.metric_definitions import DEFINITIONS
from tests.repository.source_tree import ROOT

PAGE = ROOT / "docs" / "operations.md"


def test_the_page_has_the_table_of_the_code() -> None:
    assert PAGE.read_text("utf-8") == with_table(PAGE.read_text("utf-8"))


def test_the_table_has_every_metric() -> None:
    rows = [line.split("|")[1].strip() for line in markdown_table().splitlines()[2:]]
    assert rows == [f"`{each.name}`" for each in DEFINITIONS]


def test_a_page_without_marks() -> None:
    with pytest.raises(ValueError, match="lacks"):
        with_table("no marks")
