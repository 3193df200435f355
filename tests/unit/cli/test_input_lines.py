"""Lines of a file are unchanged and numbered; lines over the limit are never in memory."""

from __future__ import annotations

import gzip
import tempfile
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from streams.files import input_lines
from streams.files.input_lines import InputFileError, InputLines, Line

LIMIT = 8


contents_of_files = st.lists(st.binary(max_size=12).filter(lambda line: b"\n" not in line))


def digest_of(lines: list[bytes]) -> int:
    return xxhash.xxh3_64_intdigest(b"".join(line + b"\n" for line in lines))


@contextmanager
def opened(content: bytes, *, packed: bool = False) -> Iterator[InputLines]:
    """Open a file with this content, plain or gzip."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / ("f.gz" if packed else "f")
        path.write_bytes(gzip.compress(content) if packed else content)
        with InputLines(str(path), LIMIT) as lines:
            yield lines


@given(contents_of_files, st.booleans())
def test_lines_have_their_numbers_sizes_and_contents(contents: list[bytes], packed: bool) -> None:
    raw = b"".join(content + b"\n" for content in contents)
    with opened(raw, packed=packed) as lines:
        assert list(lines) == [
            Line(number, content if len(content) <= LIMIT else None, len(content))
            for number, content in enumerate(contents)
        ]
        assert lines.lines_read == len(contents)
        assert lines.digest == digest_of(contents)
        size = len(gzip.compress(raw) if packed else raw)
        assert lines.bytes_read == lines.total_bytes == size


@pytest.mark.parametrize("last", [b"short", b"longer than the limit"])
def test_a_missing_end_changes_nothing(last: bytes) -> None:
    with opened(b"first\n" + last + b"\n") as one, opened(b"first\n" + last) as other:
        assert list(one) == list(other)
        assert one.digest == other.digest


def test_lines_after_skipped_ones_keep_their_numbers() -> None:
    with opened(b"a\nb\nc\n") as lines:
        assert lines.skip(2)
        assert list(lines) == [Line(2, b"c", 1)]
    with opened(b"a\nb\nc\n") as lines:
        assert not lines.skip(4)


def test_a_line_of_64_mib_is_never_held(tmp_path: Path) -> None:
    path = tmp_path / "f"
    size = 64 << 20
    with path.open("wb") as file:
        file.truncate(size)
    tracemalloc.start()
    try:
        with InputLines(str(path), 1 << 20) as lines:
            assert list(lines) == [Line(0, None, size)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20


@given(
    st.lists(st.binary(max_size=LIMIT).filter(lambda line: b"\n" not in line)),
    st.booleans(),
    st.booleans(),
)
def test_blocks_have_the_same_lines(contents: list[bytes], packed: bool, ended: bool) -> None:
    raw = b"\n".join(contents) + (b"\n" if ended and contents else b"")
    expected = raw.removesuffix(b"\n").split(b"\n") if raw else []
    with opened(raw, packed=packed) as lines:
        first = next(iter(lines), None)
        found = [] if first is None else [first.content]
        while block := lines.block():
            found += block[:-1].split(b"\n")
        assert found == expected
        assert lines.lines_read == len(expected)
        assert lines.digest == digest_of(expected)


def test_a_block_is_of_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_lines, "_BLOCK_BYTES", 4)
    with opened(b"ab\ncdefg\nh\n") as lines:
        assert [lines.block() for _ in range(3)] == [b"ab\ncdefg\n", b"h\n", b""]


def test_a_block_refuses_a_line_that_is_too_long() -> None:
    with (
        opened(b"ab\n" + b"c" * (LIMIT + 1)) as lines,
        pytest.raises(InputFileError, match="more than 8 bytes, after line 1"),
    ):
        lines.block()
