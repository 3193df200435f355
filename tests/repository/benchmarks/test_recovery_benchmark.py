"""The benchmark of recovery runs, and its figures are of the work that it says it did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.recovery import main
from simhash_core.text.profiles import PROFILES


def test_figures_of_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, state_dir = tmp_path / "figures.json", tmp_path / "state"
    state_dir.mkdir()
    main(f"--documents 600 --state-dir {state_dir} --json {path}".split())
    figures = {each["profile"]: each for each in json.loads(path.read_text("utf-8"))["figures"]}
    assert figures.keys() == PROFILES.keys()
    for each in figures.values():
        assert (each["source"], each["documents"], each["records"]) == ("records", 600, 4)
        assert each["documents_per_cpu_second"] > 0
    assert 256 + 48 + 32 + 16 + 20 < figures["wide"]["packet_bytes"] < 400
    assert 8 + 16 + 20 < figures["classic"]["changelog_bytes"] < 60
    assert "600" in capsys.readouterr().out
    assert list(state_dir.iterdir()) == []


def test_sizes_that_cannot_be() -> None:
    with pytest.raises(SystemExit):
        main(["--documents", "0"])
