"""docs/configuration.md says what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.errors import ExitCode
from streams.settings.reference import markdown_tables, with_tables
from streams.settings.setting_fields import setting_fields
from tests.repository.source_tree import ROOT
from tests.unit.settings.sources import load

PAGE = ROOT / "docs" / "configuration.md"


def test_the_page_has_the_tables_of_the_code() -> None:
    """Given the page, then its tables are those of the code; `firstseen config reference --update
    docs/configuration.md` brings them up to date.
    """
    assert PAGE.read_text("utf-8") == with_tables(PAGE.read_text("utf-8"))


def test_the_tables_have_every_setting() -> None:
    """Given the settings, then each has a row."""
    rows = [line.split("|")[1].strip() for line in markdown_tables().splitlines() if "|" in line]

    assert {f"`{name}`" for name in setting_fields()} <= set(rows)


def test_the_page_has_every_exit_code() -> None:
    """Given the exit codes, then the page tells each."""
    table = PAGE.read_text("utf-8").partition("## Exit codes")[2].partition("\n\n##")[0]

    for code in ExitCode:
        assert f"{code.value}" in table


def test_the_pages_settings_file_can_be_loaded(tmp_path: Path) -> None:
    """Given the file that the page shows, with user and password added, then it is valid."""
    example = PAGE.read_text("utf-8").partition("```toml\n")[2].partition("```")[0]
    (path := tmp_path / "firstseen.toml").write_text(example, "utf-8")

    loaded = load("kafka.sasl.username=u", "kafka.sasl.password=p", config=path)

    assert loaded.settings.index_profile().distance == 40
    assert loaded.settings.brokers == "kafka-1:9092,kafka-2:9092"


@pytest.mark.parametrize("page", ["no marks", "<!-- end -->"])
def test_a_page_without_marks(page: str) -> None:
    """Given a page without a place for the tables, then it is refused."""
    with pytest.raises(ValueError, match="lacks"):
        with_tables(page)
