"""Tables as lines of JSON."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from streams.files.document_files import csv_rows


def test_cell_of_a_table_may_be_as_long_as_a_record(tmp_path: Path) -> None:
    """The standard library's default limit is 128 KiB."""
    path = tmp_path / "t.csv"
    path.write_text("text\n" + "x" * 200_000)
    with closing(csv_rows(str(path), "t.csv", 1 << 20, "text")) as rows:
        assert [line.size for line in rows] == [len('{"text": ""}') + 200_000]
