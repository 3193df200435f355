"""``make image-test`` fails only for faults of the image; it reports missing tools and passes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.image.__main__ import CannotRunHereError, build

BUILD_SECONDS = 20.0
UNREACHABLE = {
    "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
    "PIP_NO_INDEX": "0",
    "PIP_FIND_LINKS": "",
    "PIP_CONFIG_FILE": os.devnull,
}
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


def write_programs(directory: Path, build: str, *, exists: int = 0, run: int = 0) -> None:
    """Write a podman whose commands end so, and a mmdebstrap that fails."""
    texts = {
        "podman": PODMAN.format(exists=exists, build=build, run=run),
        "mmdebstrap": "#!/bin/sh\nexit 1\n",
    }
    for name, text in texts.items():
        (directory / name).write_text(text, "utf-8")
        (directory / name).chmod(0o755)


def test_a_build_that_succeeds_where_containers_run_is_no_reason(programs: Path) -> None:
    write_programs(programs, "exit 0")
    build(BUILD_SECONDS)


@pytest.mark.parametrize(
    ("ended", "exists", "run", "reason"),
    [
        ("exit 0", 1, 0, "neither be pulled nor made"),
        ("exit 0", 0, 126, "no container can run: cannot set up"),
        ("exit 125", 0, 126, "no container can run: cannot set up"),
        ("sleep 60", 0, 0, "did not end within 1 s"),
        ("exit 1", 0, 0, "the package index cannot be reached"),
    ],
)
def test_what_prevents_a_build_is_a_reason_not_to_run(
    programs: Path,
    monkeypatch: pytest.MonkeyPatch,
    ended: str,
    exists: int,
    run: int,
    reason: str,
) -> None:
    write_programs(programs, ended, exists=exists, run=run)
    for name, value in UNREACHABLE.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(CannotRunHereError, match=reason):
        build(1.0 if ended.startswith("sleep") else BUILD_SECONDS)


def test_a_build_that_fails_where_it_can_run_is_a_failure(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_programs(programs, "exit 3")
    monkeypatch.setattr("tests.image.__main__.check_that_packages_can_be_fetched", lambda: None)
    with pytest.raises(SystemExit, match="the build ended with 3"):
        build(BUILD_SECONDS)
