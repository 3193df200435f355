"""The format of client.properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.settings.kafka_properties import parse_properties


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("a=b", {"a": "b"}),
        ("a = b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b c", {"a": "b c"}),
        ("a=b=c:d", {"a": "b=c:d"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("  a=b \n", {"a": "b "}),
        ("# a=b\n! c=d\n\n\t\n", {}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=one \\\n   two\\\n\tthree", {"a": "one twothree"}),
        ("a=x\\\\\nb=y", {"a": "x\\", "b": "y"}),
        ("a=x\\\n# no comment", {"a": "x# no comment"}),
        ("a=\\\n\nb=1", {"a": "", "b": "1"}),
        ("a\\=b\\ c=d", {"a=b c": "d"}),
        ("a=\\u96ea\\t\\n\\q", {"a": "雪\t\nq"}),
        ("密码=雪", {"密码": "雪"}),
        ("a=end\\", {"a": "end"}),
    ],
)
def test_entries(text: str, entries: dict[str, str]) -> None:
    """Given each form of the format, then it is read as `java.util.Properties` reads it."""
    assert parse_properties(text) == entries


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a=1\n=2", "line 2"),
        ("a=1\n\\\nb=1\na=2", "line 4"),
        ("a=1\nb=\\u12", "line 2"),
    ],
)
def test_mistakes(text: str, says: str) -> None:
    """Given a mistake, then it is told with its line."""
    with pytest.raises(ValueError, match=says):
        parse_properties(text)


@given(st.text(), st.text())
def test_whatever_is_escaped_comes_back(name: str, value: str) -> None:
    """Given any name and value, when every character is escaped, then they are read unchanged."""

    def escaped(text: str) -> str:
        units = text.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[i] << 8 | units[i + 1]:04x}" for i in range(0, len(units), 2))

    def units_of(text: str) -> bytes:
        return text.encode("utf-16-be", "surrogatepass")

    (entry,) = parse_properties(f"n{escaped(name)}={escaped(value)}").items()

    assert [units_of(part) for part in entry] == [units_of(f"n{name}"), units_of(value)]


@given(st.text(alphabet=st.sampled_from("ab=: \t\\\n\r#!u0"), max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Given any text, then it is entries or a ValueError, never anything else."""
    try:
        entries = parse_properties(text)
    except ValueError:
        return
    assert all(entries)
