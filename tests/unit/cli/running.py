"""Runs the command in its own process, or in this process, which is ten times as fast."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, redirect_stderr, redirect_stdout
from typing import Any, NamedTuple

from streams.cli.main import main
from streams.errors import ExitCode
from tests.repository.source_tree import ROOT

SECONDS_MAX = 120.0


class Run(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def firstseen(
    *arguments: str,
    environ: Mapping[str, str] | None = None,
    stdin: str = "",
    stdout: int = subprocess.PIPE,
) -> subprocess.CompletedProcess[str]:
    """Run `firstseen` from any directory; FIRSTSEEN_ variables come only from `environ`."""
    return subprocess.run(
        [sys.executable, "-m", "streams.cli.main", *arguments],
        env=clean_environment() | {"PYTHONPATH": str(ROOT)} | dict(environ or {}),
        input=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


def started(*arguments: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """Start `firstseen` as a process; it is killed at the end of the block."""
    return started_as(sys.executable, "-m", "streams.cli.main", *arguments)


@contextmanager
def started_as(*command: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command,
        env=clean_environment() | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=SECONDS_MAX)


def run_here(*arguments: str) -> Run:
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = main(arguments)
    return Run(code, out.getvalue(), err.getvalue())


def report_of(*arguments: str) -> dict[str, Any]:
    """Run a command in this process with ``--json``, which must succeed; return its object."""
    run = run_here(*arguments, "--json")
    assert run.returncode == ExitCode.OK, run.stderr
    report: dict[str, Any] = json.loads(run.stdout)
    return report


def message_of(code: ExitCode, *arguments: str) -> str:
    """Run a command in this process, which must end with ``code``; return its standard error."""
    run = run_here(*arguments)
    assert run.returncode == code, run.stderr
    return run.stderr


def clean_environment() -> dict[str, str]:
    """Return this process's environment without the variables of Firstseen."""
    return {name: value for name, value in os.environ.items() if name[:10] != "FIRSTSEEN_"}
