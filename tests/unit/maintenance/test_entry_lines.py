"""Lines of entries: the example of docs/formats.md, round trips, and refused lines."""

from __future__ import annotations

import pytest

from simhash_core.documents import Entry, SourcePosition
from simhash_core.errors import UsageError
from streams.maintenance.exporting import EntryLines, encode_entry, encode_header, header_in
from streams.maintenance.loading import loaded_runs
from tests.unit.formats.internal_samples import PAGE

EXAMPLE = PAGE.partition("<!-- example: export -->\n```json\n")[2].partition("```")[0].encode()
HEADER, *LINES = EXAMPLE.splitlines()
READER = EntryLines(64, needs_sketches=False)
PRINTED = b'{"id":"x","fingerprint":"0123456789abcdef"}'


def joined(lines: list[bytes]) -> bytes:
    return b"".join([line + b"\n" for line in lines])


def entries() -> list[tuple[int, Entry, str]]:
    digest = bytes(range(16))
    print_ = bytes.fromhex("0123456789abcdef")
    a = Entry(SourcePosition("raw", 2, 10), "a", 1714536000000, print_, digest, b"\x5e|")
    bc = Entry(SourcePosition("raw", 2, 12), "bc", 1714536000500, b"", b"\xff" * 16)
    return [(17 << 16, a, ""), (17 << 16 | 1, bc, "too_few_features")]


def test_entries_are_written_as_the_lines_of_the_page() -> None:
    header = header_in(HEADER)
    assert header is not None
    assert encode_header(header) == HEADER + b"\n"
    assert [encode_entry(*each) for each in entries()] == [line + b"\n" for line in LINES]


def test_lines_of_the_page_are_read() -> None:
    places, columns = READER.columns(1, joined(LINES), "seen.jsonl")
    assert places == [("raw", 2), ("raw", 2)]
    assert columns.offsets.tolist() == [10, 12]
    assert columns.times_ms.tolist() == [1714536000000, 1714536000500]
    assert [columns.document_id(row) for row in (0, 1)] == ["a", "bc"]
    assert columns.fingerprints[0].tobytes().hex() == "0123456789abcdef"
    assert columns.undecidable.tolist() == [0, 3]
    assert columns.digest(1) == b"\xff" * 16
    assert list(columns.sketches) == [b"\x5e|", b""]


def test_source_and_content_are_optional_and_blank_lines_count_as_lines() -> None:
    """By default the source is the line, and the content equals no other."""
    content = b"\n" + PRINTED + b"\r\n  \n" + PRINTED.replace(b"x", b"y") + b"\n\n"
    places, columns = READER.columns(3, content, "mine.jsonl")
    assert places == [("mine.jsonl", 0)] * 2
    assert columns.offsets.tolist() == [4, 6]
    assert columns.digest(0) != columns.digest(1)
    _, columns = READER.columns(3, b"\n \n", "mine.jsonl")
    assert len(columns) == 0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"id":"x"}', "16 hex digits"),
        (b'{"id":"x","fingerprint":"01234567"}', "16 hex digits"),
        (b'{"id":"x","fingerprint":"0123456789abcdeg"}', "hex"),
        (b'{"id":"x","fingerprint":"0123456789 abcde"}', "hex"),
        (b'{"id":"x","undecidable":"empty"}', "digest"),
        (b'{"id":"x","undecidable":"dull","content":"' + b"00" * 16 + b'"}', "'dull'"),
        (PRINTED[:-1] + b',"time":"today"}', "line 5"),
        (PRINTED[:-1] + b',"time":"2024-05-32T04:00:00.000Z"}', "line 5"),
        (PRINTED[:-1] + b',"source":{"topic":"t","partition":-1,"offset":0}}', "line 5"),
        (PRINTED + b" " + PRINTED, "line 5"),
        (b'{"fingerprint":"0123456789abcdef"}', "id"),
        (b"not JSON", "line 5"),
    ],
)
def test_invalid_line_is_named_alone_and_among_valid_ones(line: bytes, said: str) -> None:
    with pytest.raises(UsageError, match=said) as error:
        READER.columns(4, joined([line]), "mine.jsonl")
    assert "mine.jsonl, line 5" in str(error.value)
    valid = PRINTED[:-1] + b',"time":"2024-05-01T04:00:00.000Z"}'
    lines = [valid] * 7 + [line] + [valid] * 7
    with pytest.raises(UsageError, match=r"mine\.jsonl, line 8"):
        READER.columns(0, joined(lines), "mine.jsonl")


def test_index_with_sketches_refuses_lines_without() -> None:
    strict = EntryLines(64, needs_sketches=True)
    with pytest.raises(UsageError, match="sketch"):
        strict.columns(0, joined([PRINTED]), "mine.jsonl")


def test_runs_have_one_source_and_rising_offsets() -> None:
    offsets = [5, 1, 6, 2, 3, 3]
    lines = [
        (
            f'{{"id":"{row}","fingerprint":"0123456789abcdef","source":'
            f'{{"topic":"t","partition":{row % 2},"offset":{offset}}}}}'
        ).encode()
        for row, offset in enumerate(offsets)
    ]
    runs = list(loaded_runs(*READER.columns(0, joined(lines), "f")))
    assert [(run.partition, run.columns.offsets.tolist()) for run in runs] == [
        (0, [5, 6]),
        (0, [3]),
        (1, [1, 2, 3]),
    ]
