"""``make image-test`` fails only for faults of the image; it reports missing tools and passes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.image.__main__ import CannotRunHereError, build

BUILD_SECONDS = 20.0
PODMAN = """#!/bin/sh
case "$1 $2" in
"image exists") exit {exists} ;;
pull*) exit 1 ;;
build*) {build} ;;
run*) echo "cannot set up a namespace" >&2; exit {run} ;;
esac
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory that is the first one on PATH."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def write_programs(
    directory: Path, *, exists: int = 0, build: str = "exit 0", run: int = 0, mmdebstrap: int = 1
) -> None:
    texts = {
        "podman": PODMAN.format(exists=exists, build=build, run=run),
        "mmdebstrap": f"#!/bin/sh\nexit {mmdebstrap}\n",
    }
    for name, text in texts.items():
        (directory / name).write_text(text, "utf-8")
        (directory / name).chmod(0o755)


def test_a_build_that_succeeds_where_containers_run_is_no_reason(programs: Path) -> None:
    write_programs(programs)
    build(BUILD_SECONDS)


@pytest.mark.parametrize(
    ("exists", "ended", "run", "reason"),
    [
        (1, "exit 0", 0, "neither be pulled nor made"),
        (0, "exit 0", 126, "no container can run: cannot set up"),
        (0, "exit 125", 126, "no container can run: cannot set up"),
        (0, "sleep 60", 0, "did not end within 1 s"),
    ],
)
def test_what_prevents_a_build_is_a_reason_not_to_run(
    programs: Path, exists: int, ended: str, run: int, reason: str
) -> None:
    write_programs(programs, exists=exists, build=ended, run=run)
    with pytest.raises(CannotRunHereError, match=reason):
        build(1.0 if ended.startswith("sleep") else BUILD_SECONDS)


def test_no_package_index_is_a_reason(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_programs(programs, build="exit 1")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_NO_INDEX", "0")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with pytest.raises(CannotRunHereError, match="the package index cannot be reached"):
        build(BUILD_SECONDS)


def test_a_build_that_fails_where_it_can_run_is_a_failure(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_programs(programs, build="exit 3")
    monkeypatch.setattr("tests.image.__main__.check_that_packages_can_be_fetched", lambda: None)
    with pytest.raises(SystemExit, match="the build ended with 3"):
        build(BUILD_SECONDS)
