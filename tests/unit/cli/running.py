"""Running the command as a process of its own, as a shell does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

_SECONDS_MAX = 120.0


def firstseen(
    *arguments: str, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `firstseen` with these arguments, without FIRSTSEEN_ variables but those of `environ`."""
    return subprocess.run(
        [sys.executable, "-m", "streams.cli.main", *arguments],
        env=clean_environment() | dict(environ or {}),
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
        check=False,
    )


def clean_environment() -> dict[str, str]:
    """This process's environment without the variables of Firstseen."""
    return {name: value for name, value in os.environ.items() if name[:10] != "FIRSTSEEN_"}
