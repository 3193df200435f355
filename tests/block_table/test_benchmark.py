"""The benchmark of block tables runs, and its figures are of the work that it says it did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.block_table import main


def test_figures_as_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Given a small workload, then there are figures of both tables, which met the same
    candidates, as many as random fingerprints must; and nothing is left on the disk.
    """
    main(
        "--json --entries 300 --documents 100 --batch 50 --bits 64 --blocks 8 --block-bits 8 "
        f"--cuts 1 --state-dir {tmp_path}".split()
    )

    memory, rocksdb = json.loads(capsys.readouterr().out)["tables"]
    assert (memory["table"], rocksdb["table"]) == ("memory", "rocksdb")
    assert memory["candidates_per_lookup"] == rocksdb["candidates_per_lookup"]
    assert 8 * 300 / 256 < memory["candidates_per_lookup"] < 8 * 400 / 256
    assert rocksdb["disk_bytes"] > 300 * 8
    assert rocksdb["documents_per_second"] > 0
    assert list(tmp_path.iterdir()) == []


def test_figures_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    """Given no entries at all, then a table of figures is printed all the same."""
    main(["--entries", "0", "--documents", "10", "--batch", "10"])

    assert "rocksdb" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", ["--batch 0", "--documents 0", "--entries -1"])
def test_sizes_that_cannot_be(arguments: str) -> None:
    """Given a size that cannot be, then the command refuses it."""
    with pytest.raises(SystemExit):
        main(arguments.split())
