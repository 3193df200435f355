"""Lines of a file: unchanged, numbered, and none held that is longer than the limit."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from streams.files import input_lines
from streams.files.input_lines import InputFileError, InputLines, Line

LIMIT = 8


@given(st.lists(st.binary(max_size=12).filter(lambda line: b"\n" not in line)), st.booleans())
def test_lines_are_what_stands_between_line_ends(
    tmp_path_factory: pytest.TempPathFactory, contents: list[bytes], packed: bool
) -> None:
    """Given any lines, plain or gzip, then each comes with its number and its size, and with its
    content unless that is over the limit.
    """
    raw = b"".join(content + b"\n" for content in contents)
    path = tmp_path_factory.mktemp("lines") / ("f.gz" if packed else "f")
    path.write_bytes(gzip.compress(raw) if packed else raw)

    with InputLines(str(path), LIMIT) as lines:
        found = list(lines)

        assert found == [
            Line(number, content if len(content) <= LIMIT else None, len(content))
            for number, content in enumerate(contents)
        ]
        assert lines.lines_read == len(contents)
        assert lines.digest == xxhash.xxh3_64_intdigest(raw)
        assert lines.bytes_read == lines.total_bytes == path.stat().st_size


@pytest.mark.parametrize("last", [b"short", b"longer than the limit"])
def test_an_end_that_is_missing_changes_nothing(tmp_path: Path, last: bytes) -> None:
    """Given a last line with and without its end, then both read alike, digest and all."""
    ended, open_ = tmp_path / "ended", tmp_path / "open"
    ended.write_bytes(b"first\n" + last + b"\n")
    open_.write_bytes(b"first\n" + last)

    with InputLines(str(ended), LIMIT) as one, InputLines(str(open_), LIMIT) as other:
        assert list(one) == list(other)
        assert one.digest == other.digest


def test_skipped_lines_count_as_read(tmp_path: Path) -> None:
    """Given lines that were skipped, then the rest is what is left, with its own numbers."""
    path = tmp_path / "f"
    path.write_bytes(b"a\nb\nc\n")

    with InputLines(str(path), LIMIT) as lines:
        assert lines.skip(2)
        assert list(lines) == [Line(2, b"c", 1)]
    with InputLines(str(path), LIMIT) as lines:
        assert not lines.skip(4)


def test_a_long_line_is_never_held(tmp_path: Path) -> None:
    """Given a line of 64 MiB, when it is read with a limit of 1 MiB, then not much more than that
    is in memory at any time.
    """
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
    st.lists(st.binary(max_size=8).filter(lambda line: b"\n" not in line)),
    st.booleans(),
    st.booleans(),
)
def test_blocks_have_the_same_lines(
    tmp_path_factory: pytest.TempPathFactory, contents: list[bytes], packed: bool, ended: bool
) -> None:
    """Given lines, the last one ended or not, then blocks have all that are left, unchanged."""
    raw = b"\n".join(contents) + (b"\n" if ended and contents else b"")
    expected = raw.removesuffix(b"\n").split(b"\n") if raw else []
    path = tmp_path_factory.mktemp("lines") / ("f.gz" if packed else "f")
    path.write_bytes(gzip.compress(raw) if packed else raw)

    with InputLines(str(path), LIMIT) as lines:
        first = next(iter(lines), None)
        found = [] if first is None else [first.content]
        while block := lines.block():
            found += block[:-1].split(b"\n")

        assert found == expected
        assert lines.lines_read == len(expected)
        assert lines.digest == xxhash.xxh3_64_intdigest(b"".join(one + b"\n" for one in expected))


def test_a_block_is_of_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given lines of more bytes than a block, then each block ends with a line."""
    monkeypatch.setattr(input_lines, "_BLOCK_BYTES", 4)
    path = tmp_path / "f"
    path.write_bytes(b"ab\ncdefg\nh\n")
    with InputLines(str(path), LIMIT) as lines:
        assert [lines.block() for _ in range(3)] == [b"ab\ncdefg\n", b"h\n", b""]


def test_a_block_refuses_a_line_that_is_too_long(tmp_path: Path) -> None:
    """Given a line over the limit at the end of a file, then the error says after which line."""
    path = tmp_path / "f"
    path.write_bytes(b"ab\n" + b"c" * (LIMIT + 1))
    with (
        InputLines(str(path), LIMIT) as lines,
        pytest.raises(InputFileError, match="more than 8 bytes, after line 1"),
    ):
        lines.block()
