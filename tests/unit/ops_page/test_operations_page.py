"""docs/operations.md: its commands run unchanged, and its tables have every field."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from streams.ops_page.text_check import CheckAnswer, CheckRequest, NearDocument
from tests.repository.source_tree import ROOT
from tests.rigs.required_tools import give_up
from tests.rigs.waiting import await_that
from tests.unit.cli.running import clean_environment
from tests.unit.ops_page.live_worker import Live

PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")
BLOCKS = re.findall(r"<!-- run -->\n```sh\n(.+?)```", PAGE, re.DOTALL)
COMMANDS = [line for block in BLOCKS for line in block.replace("\\\n", "").splitlines()]
OF_LABELS = {"documents", "errors", "dead_letters", "transactions"}
"""Objects whose names are the values of a metric's label."""


def names_in(value: object) -> set[str]:
    """Return the names of all fields in a JSON value."""
    if isinstance(value, list):
        return set().union(*map(names_in, value))
    if not isinstance(value, dict):
        return set()
    inner = (names_in(each) for name, each in value.items() if name not in OF_LABELS)
    return set(value).union(*inner)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run_as_they_stand(live: Live, command: str) -> None:
    if command.startswith("curl") and shutil.which("curl") is None:
        give_up("no curl (Debian: apt-get install curl)")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    result = subprocess.run(
        ["bash", "-euc", command.replace("http://127.0.0.1:6066", live.worker.url.rstrip("/"))],
        env=clean_environment() | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    if "--json" in command or command.startswith("curl"):
        assert json.loads(result.stdout)["schema"].startswith("firstseen.")
    else:
        assert result.stdout.startswith("verdict")


def test_commands_cover_each_path_of_the_api() -> None:
    shown = "\n".join(COMMANDS)
    for wanted in ("/api/status", "/api/duplicates", "/api/check", "firstseen check"):
        assert wanted in shown


def test_every_field_is_explained(live: Live) -> None:
    section = PAGE.partition("### The ops page")[2].partition("### Prometheus")[0]
    named = set(re.findall(r"`([a-z0-9_]+)`", section))
    structs = (CheckRequest, CheckAnswer, NearDocument)
    of_check = {field.name for each in structs for field in msgspec.structs.fields(each)}
    await_that(lambda: live.status()["group"])
    assert names_in(live.status()) | of_check <= named | {"topic", "partition", "messages"}
