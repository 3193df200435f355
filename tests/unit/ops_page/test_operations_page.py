"""docs/operations.md: its commands run as they stand, and its tables have every field."""

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

from streams.ops_page.status import (
    Candidates,
    Group,
    GroupWorker,
    InFlight,
    Ordering,
    Process,
    ShardStatus,
    Status,
    ThisWorker,
    Troubles,
)
from streams.ops_page.text_check import CheckAnswer, CheckRequest
from tests.repository.source_tree import ROOT
from tests.rigs.required_tools import give_up
from tests.unit.cli.running import clean_environment
from tests.unit.ops_page.live_worker import Live

PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")
BLOCKS = re.findall(r"<!-- run -->\n```sh\n(.+?)```", PAGE, re.DOTALL)
COMMANDS = [line for block in BLOCKS for line in block.replace("\\\n", "").splitlines()]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run_as_they_stand(live: Live, command: str) -> None:
    directory = Path(sys.executable).parent
    if command.startswith("curl") and shutil.which("curl") is None:
        give_up("no curl (Debian: apt-get install curl)")
    environment = clean_environment() | {"PATH": f"{directory}:{os.environ['PATH']}"}

    result = subprocess.run(
        ["bash", "-euc", command.replace("http://127.0.0.1:6066", live.worker.url.rstrip("/"))],
        env=environment,
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


@pytest.mark.parametrize(
    "struct",
    [
        Status,
        ThisWorker,
        Group,
        GroupWorker,
        Process,
        Troubles,
        Candidates,
        ShardStatus,
        Ordering,
        InFlight,
        CheckRequest,
        CheckAnswer,
    ],
)
def test_every_field_is_explained(struct: type[msgspec.Struct]) -> None:
    section = PAGE.partition("### The ops page")[2].partition("### Prometheus")[0]
    named = set(re.findall(r"`([a-z0-9_]+)`", section))
    missing = {field.name for field in msgspec.structs.fields(struct)} - named
    assert missing - {"partition"} == set()
