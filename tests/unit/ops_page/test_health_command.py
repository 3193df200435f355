"""``firstseen health``, as a container's probe runs it."""

from __future__ import annotations

from pathlib import Path

from simhash_core.errors import FirstseenError
from streams.errors import ExitCode
from tests.unit.cli.running import firstseen
from tests.unit.ops_page.served_page import served_page

TOKEN = "a-token-of-the-worker"  # noqa: S105 - a test's


def test_health_of_a_worker_that_opens_a_shard_and_then_fails(tmp_path: Path) -> None:
    with served_page(tmp_path) as served:
        well = firstseen("health", "--url", served.url)
        ready = firstseen("health", "--ready", "--url", served.url)
        served.view.failure = FirstseenError("no room on the disk")
        failed = firstseen("health", "--url", served.url)
    assert (well.returncode, well.stdout) == (ExitCode.OK, "well\n")
    assert ready.returncode == ExitCode.RUNTIME
    assert "[2]" in ready.stderr
    assert failed.returncode == ExitCode.RUNTIME
    assert "no room on the disk" in failed.stderr


def test_health_sends_the_token_of_the_environment(tmp_path: Path) -> None:
    with served_page(tmp_path, f"web.token={TOKEN}") as served:
        environ = {"FIRSTSEEN_WEB__PORT": str(served.port)}
        without = firstseen("health", environ=environ)
        passed = firstseen("health", environ=environ | {"FIRSTSEEN_WEB__TOKEN": TOKEN})
    assert without.returncode == ExitCode.CONFIGURATION
    assert passed.returncode == ExitCode.OK, passed.stderr


def test_health_without_a_worker_names_the_address(tmp_path: Path) -> None:
    with served_page(tmp_path) as served:
        url = served.url
    gone = firstseen("health", "--url", url)
    assert gone.returncode != ExitCode.OK
    assert url in gone.stderr
