"""A new file gets its name only when it is complete, and never replaces another file."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from simhash_core.errors import UsageError
from streams.files.output_files import new_output


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_file_gets_its_name_at_the_end(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with new_output(str(path)) as output:
        output.write(b"one\n")
        assert not path.exists()
    content = path.read_bytes()
    assert (gzip.decompress(content) if name.endswith(".gz") else content) == b"one\n"
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_is_left_of_a_file_that_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), new_output(str(tmp_path / "a")) as output:
        output.write(b"%d" % (1 // 0))
    assert list(tmp_path.iterdir()) == []


def test_file_that_exists_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"mine")
    with pytest.raises(UsageError, match=str(path)), new_output(str(path)):
        pytest.fail("not reached")
    assert path.read_bytes() == b"mine"


def test_standard_output_stays_open(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    for _ in range(2):
        with new_output("-") as output:
            output.write(b"x")
    assert capsysbinary.readouterr().out == b"xx"
