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

from streams.ops_page import status, text_check
from tests.repository.source_tree import ROOT
from tests.rigs.required_tools import give_up
from tests.unit.cli.running import clean_environment
from tests.unit.ops_page.live_worker import Live

PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")
BLOCKS = re.findall(r"<!-- run -->\n```sh\n(.+?)```", PAGE, re.DOTALL)
COMMANDS = [line for block in BLOCKS for line in block.replace("\\\n", "").splitlines()]
STRUCTS = [
    each
    for module in (status, text_check)
    for each in vars(module).values()
    if isinstance(each, type) and issubclass(each, msgspec.Struct)
    if each.__module__ == module.__name__
    if each not in {status.Lag, text_check.Position, text_check.Differences}
]


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


@pytest.mark.parametrize("struct", STRUCTS)
def test_every_field_is_explained(struct: type[msgspec.Struct]) -> None:
    section = PAGE.partition("### The ops page")[2].partition("### Prometheus")[0]
    named = set(re.findall(r"`([a-z0-9_]+)`", section))
    missing = {field.name for field in msgspec.structs.fields(struct)} - named
    assert missing - {"partition"} == set()
