"""The tools of ``.venv-tools``, for tests that need one."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.repository.source_tree import ROOT
from tests.rigs.required_tools import give_up

_SECONDS = 120.0


def run_tool(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a tool; where it is not there, skip the test, or fail it if tools are required."""
    path = ROOT / ".venv-tools" / "bin" / name
    if not path.exists():
        give_up(f"no {name}: run make tools")
    return subprocess.run(
        [str(path), *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
