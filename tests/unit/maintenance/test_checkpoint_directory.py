"""A checkpoint that cannot be written ends with one line that says why."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Never

import pytest

from streams.errors import ExitCode
from tests.unit.cli.running import run_here


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    (tmp_path / "state" / "firstseen" / "shard-0").mkdir(parents=True)
    return tmp_path / "state"


def test_it_cannot_be_made(state_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    run = run_here(
        *("index", "checkpoint", str(tmp_path / "file" / "backup"), "--set"),
        f"state_dir={state_dir}",
    )
    assert run.returncode == ExitCode.RUNTIME
    assert f"cannot write to {tmp_path}/file/backup: Not a directory" in run.stderr


def test_its_disk_is_full(state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def copy_files(*_: object) -> Never:
        raise shutil.Error([("a", "b", "[Errno 28] No space left on device"), ("c", "d", "…")])

    monkeypatch.setattr("streams.maintenance.checkpoints._copy_files", copy_files)
    run = run_here(
        *("index", "checkpoint", str(tmp_path / "backup"), "--set", f"state_dir={state_dir}")
    )
    assert run.returncode == ExitCode.RUNTIME
    assert run.stderr.endswith("backup: [Errno 28] No space left on device\n")
