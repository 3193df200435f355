"""Tables of lines ``term idf``: read whole, and never wrongly."""

from __future__ import annotations

import pytest

from simhash_core.errors import UsageError
from simhash_core.text.idf import parse_idf


def test_terms_of_an_idf_table_are_normalised() -> None:
    model = parse_idf("mine", "Ａ 1\n桥 2.5\na 4.0\n".encode())
    assert dict(model.table) == {"a": 4.0, "桥": 2.5}
    assert model.idf("unknown") == 3.25
    assert model.identity.startswith("mine-")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a 1 c\n2\n", "line 1: .*'a 1 c'"),
        (b"a 1\n b 2\n", "line 2: .*' b 2'"),
        (b"a 1\nb x\n", "line 2: .*'b x'"),
        (b"a -1\n", "line 1"),
        (b"a nan\n", "line 1"),
        (b"a 1\n\nb 2\n", "line 2"),
        (b"a 1\r\nb 2\r\n", "not separated by line feeds"),
        (b"", "has no terms"),
    ],
)
def test_a_bad_line_of_an_idf_table_is_named(data: bytes, message: str) -> None:
    with pytest.raises(UsageError, match=f"^idf model mine.*{message}"):
        parse_idf("mine", data)
