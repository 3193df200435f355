"""What --json writes: an object a line with its schema, which cannot draw on a terminal."""

from __future__ import annotations

import json
import re

import msgspec

from streams.cli.options import json_line
from tests.repository.source_tree import ROOT

WRITTEN_KIND = re.compile(r'(?:write_json|write_blocks|json_line)\(\s*"([a-z-]+)"')


class Size(msgspec.Struct):
    """An object of two fields."""

    documents: int
    state: str | None = None


def test_the_schema_is_first() -> None:
    """Given a mapping or a struct, then it is one line, its schema first."""
    assert json_line("size", Size(3)) == '{"schema":"firstseen.size/1","documents":3,"state":null}'
    assert json_line("size", {"新": 1}, 2) == '{"schema":"firstseen.size/2","新":1}'


def test_what_does_not_print_is_escaped() -> None:
    """Given signs that move the cursor or turn the writing, then they are escaped."""
    text = "a\x1b[2J\x9b1m\u202e\U000e0041雪"
    line = json_line("text", {"text": text})
    assert line.isprintable()
    assert json.loads(line)["text"] == text


def test_every_kind_is_documented() -> None:
    """Given the kinds that commands write, then docs/formats.md lists each of them."""
    page = (ROOT / "docs" / "formats.md").read_text("utf-8")
    listed = page.partition("### What commands write")[2].partition("###")[0]
    modules = (ROOT / "streams" / "cli").glob("*.py")
    found = {kind for each in modules for kind in WRITTEN_KIND.findall(each.read_text("utf-8"))}
    assert len(found) > 15
    assert {kind for kind in found if f"`{kind}`" not in listed} == set()
