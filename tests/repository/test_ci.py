"""`.ci/run` cannot hang: a stage that does not end is ended, and named with its limit."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.repository.source_tree import ROOT

SECONDS: Final = 60.0
NEEDED: Final = (
    *("make", "python3", "java", "mvn", "openssl", "chromium", "curl", "promtool", "kubectl"),
)


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    """A directory with everything that `.ci/run` calls, in versions that do nothing."""
    for name in NEEDED:
        write(tmp_path / name, "exit 0")
    return tmp_path


def write(command: Path, script: str) -> None:
    """Make a command."""
    command.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    command.chmod(0o755)


def run(commands: Path, total_seconds: int) -> subprocess.CompletedProcess[str]:
    """Run CI with these commands, and so long for all of it."""
    return subprocess.run(
        [ROOT / ".ci" / "run"],
        env={
            **os.environ,
            "PATH": f"{commands}:/usr/bin:/bin",
            "FIRSTSEEN_CI_SECONDS": f"{total_seconds}",
        },
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def test_all_stages_have_a_time(commands: Path) -> None:
    ended = run(commands, 1200)
    assert ended.returncode == 0, ended.stderr
    assert [line.split()[0] for line in ended.stdout.splitlines()[-4:]] == [
        *("install", "kafka", "check", "test"),
    ]


@pytest.mark.parametrize("trap", ["", "trap '' TERM; "])
def test_a_stage_that_hangs_is_ended(commands: Path, trap: str) -> None:
    hang = f'{trap}case "$*" in *kafka) while :; do sleep 0.1; done;; esac'
    write(commands / "make", hang)
    ended = run(commands, 3)
    assert ended.returncode == 1
    assert "== kafka failed after" in ended.stderr
    assert "limit of" in ended.stderr
    assert "make --no-print-directory kafka" in ended.stderr
    assert "check" not in ended.stdout


def test_a_stage_that_fails_is_named(commands: Path) -> None:
    write(commands / "make", 'case "$*" in *check) exit 2;; esac')
    ended = run(commands, 1200)
    assert ended.returncode == 1
    assert "== check failed after" in ended.stderr
    assert "limit" not in ended.stderr
