"""The benchmark of recovery runs, and its figures are of the work that it says it did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.recovery import main


@pytest.mark.parametrize(("options", "records"), [([], 603), (["--as-written"], 1803)])
def test_figures_of_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], records: int
) -> None:
    """Given a small log, then all its documents are recovered, from as many records as it has, and
    nothing is left on the disk.
    """
    path, state_dir = tmp_path / "figures.json", tmp_path / "state"
    state_dir.mkdir()
    arguments = f"--documents 600 --partitions 4 --state-dir {state_dir} --json {path}"
    main([*arguments.split(), *options])

    (figures,) = json.loads(path.read_text("utf-8"))["figures"]
    assert (figures["source"], figures["partitions"]) == ("records", 4)
    assert (figures["documents"], figures["records"]) == (600, records)
    assert figures["documents_per_cpu_second"] > 0
    assert figures["disk_bytes_per_document"] > 300
    assert "600" in capsys.readouterr().out
    assert list(state_dir.iterdir()) == []


def test_sizes_that_cannot_be() -> None:
    """Given no documents, then the command refuses it."""
    with pytest.raises(SystemExit):
        main(["--documents", "0"])
