"""`.ci/run` does not hang: it ends a stage at its limit, and names both."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.repository.source_tree import ROOT

COMMANDS = (
    *("make", "python3", "java", "mvn", "openssl", "chromium", "curl", "promtool", "kubectl"),
    *("ip", "nft"),
)


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    """Make a directory with all commands that `.ci/run` calls, in versions that do nothing."""
    for name in COMMANDS:
        (tmp_path / name).write_text("#!/bin/sh\n", "utf-8")
        (tmp_path / name).chmod(0o755)
    return tmp_path


def run(
    commands: Path, make: str, total_seconds: int = 1200, *, image_test: bool = False
) -> subprocess.CompletedProcess[str]:
    (commands / "make").write_text(f"#!/bin/sh\n{make}\n", "utf-8")
    variables = {
        "PATH": f"{commands}:/usr/bin:/bin",
        "FIRSTSEEN_CI_SECONDS": f"{total_seconds}",
        "FIRSTSEEN_IMAGE_TEST": f"{image_test:d}",
    }
    return subprocess.run(
        [ROOT / ".ci" / "run"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_ci_says_how_long_each_stage_took(commands: Path) -> None:
    ended = run(commands, "exit 0")
    assert ended.returncode == 0, ended.stderr
    _, _, table = ended.stdout.partition("== passed\n")
    stages = [line.split()[0] for line in table.splitlines()]
    assert stages == ["install", "kafka", "check", "test", "torture"]


HANGS = 'case "$*" in *kafka) while :; do sleep 0.1; done;; esac'


@pytest.mark.parametrize(
    ("make", "stage", "is_limited"),
    [
        (HANGS, "kafka", True),
        (f"trap '' TERM; {HANGS}", "kafka", True),
        ('case "$*" in *check) exit 2;; esac', "check", False),
        ('case "$*" in *image-test*) exit 1;; esac', "image", False),
    ],
)
def test_a_stage_that_fails_or_hangs_is_the_last_and_is_named(
    commands: Path, make: str, stage: str, is_limited: bool
) -> None:
    ended = run(commands, make, total_seconds=3 if is_limited else 1200, image_test=True)
    assert ended.returncode == 1
    assert re.findall(r"^== (\w+)$", ended.stdout, re.MULTILINE)[-1] == stage
    assert f"== {stage} failed after" in ended.stderr
    for said in ("limit of", f"make --no-print-directory {stage}"):
        assert (said in ended.stderr) is is_limited


def test_the_image_is_tested_last_and_only_when_wanted(commands: Path) -> None:
    ended = run(commands, "exit 0")
    assert "== image: not tested without FIRSTSEEN_IMAGE_TEST=1\n" in ended.stdout
    ended = run(commands, 'echo "$@"', image_test=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1].split()[0] == "image"
    assert "image-test ARGS=--build-seconds" in ended.stdout
