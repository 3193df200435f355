"""A checkpoint that cannot be copied ends with one line that says why; no part of it is left."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from streams.errors import ExitCode
from tests.unit.cli.running import run_here
from tests.unit.store.samples import open_store, write

COMMITS = 40
WRITABLE_BYTES = 16_384  # less than the entries, more than what RocksDB writes to open a store


@contextmanager
def full_disk(writable_bytes: int) -> Iterator[None]:
    """Let no file of this process be longer; the kernel refuses more, as that of a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (writable_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    path = tmp_path / "state" / "tests" / "shard-3"
    with closing(open_store(path)) as store:
        for commit in range(COMMITS):
            write(store, commit)
    return tmp_path / "state"


def settings(state_dir: Path) -> list[str]:
    return ["--application-id", "tests", "--set", f"state_dir={state_dir}"]


def test_it_cannot_be_made(state_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    backup = tmp_path / "file" / "backup"
    run = run_here("index", "checkpoint", str(backup), *settings(state_dir))
    assert run.returncode == ExitCode.RUNTIME
    assert f"cannot write to {backup}: Not a directory" in run.stderr


def test_a_full_disk_leaves_nothing_of_a_checkpoint(state_dir: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    with full_disk(WRITABLE_BYTES):
        run = run_here("index", "checkpoint", str(backup), *settings(state_dir))
    assert run.returncode == ExitCode.RUNTIME
    assert run.stderr.startswith(f"firstseen: cannot write to {backup}: [Errno 27] File too large")
    assert list(backup.iterdir()) == []
    assert [each.name for each in (state_dir / "tests").iterdir()] == ["shard-3"]


def test_a_full_disk_keeps_the_store_that_was_to_be_replaced(
    state_dir: Path, tmp_path: Path
) -> None:
    backup = tmp_path / "backup"
    path = state_dir / "tests" / "shard-3"
    assert run_here("index", "checkpoint", str(backup), *settings(state_dir)).returncode == 0
    with closing(open_store(path)) as store:
        write(store, COMMITS)
        documents = len(store)

    with full_disk(WRITABLE_BYTES):
        run = run_here("index", "restore", str(backup), "--force", *settings(state_dir))

    assert run.returncode == ExitCode.RUNTIME
    assert run.stderr.startswith(f"firstseen: cannot write to {path.parent}: [Errno 27] File too")
    assert [each.name for each in path.parent.iterdir()] == ["shard-3"]
    with closing(open_store(path)) as store:
        assert len(store) == documents
    run = run_here("index", "restore", str(backup), "--force", *settings(state_dir))
    assert run.returncode == 0
    with closing(open_store(path)) as store:
        assert len(store) < documents
