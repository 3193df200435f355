"""If tests hang in C or end their processes, the run names them and runs all others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import parse

import pytest

from tests.rigs.ended_processes import GRACE_VARIABLE

LIMIT_SECONDS: Final = 2
RUN_SECONDS: Final = 120.0

# A mutex of zeros is unlocked; a thread that locks it twice waits for ever, despite signals.
HANG: Final = """
    import ctypes
    mutex = ctypes.create_string_buffer(64)
    lock = ctypes.CDLL(None).pthread_mutex_lock
    lock(mutex)
    lock(mutex)
"""
HANGS_IN_C: Final = f"""
import pytest

def test_before():
    pass

def test_hangs_in_c():
{HANG}

@pytest.mark.parametrize("number", range(4))
def test_after(number):
    pass
"""
HANGS_IN_PYTHON: Final = """
import time

def test_hangs_in_python():
    time.sleep(600)

def test_in_the_same_process():
    pass
"""
ENDS_ITS_PROCESS: Final = """
import os, signal

def test_first():
    pass

def test_kills_its_process():
    os.kill(os.getpid(), signal.SIGKILL)

def test_last():
    pass
"""
HANGS_WHILE_IT_ENDS: Final = f"""
import pytest

@pytest.fixture
def stubborn():
    yield
{HANG}

def test_fails_and_hangs_while_it_ends(stubborn):
    assert False

def test_after_it():
    pass
"""
PASSES: Final = "import time\n\ndef test_passes():\n    time.sleep(0.1)\n"


def run(directory: Path, root: Path, files: dict[str, str], *arguments: str) -> tuple[str, int]:
    """Run pytest with the project's rules on ``files``; return its output and its exit code."""
    (directory / "conftest.py").write_text(
        'pytest_plugins = ["tests.rigs.ended_processes"]\n', "utf-8"
    )
    (directory / "pytest.ini").write_text(
        f"[pytest]\ntimeout = {LIMIT_SECONDS}\njunit_family = xunit2\n", "utf-8"
    )
    for name, text in files.items():
        (directory / f"test_{name}.py").write_text(text, "utf-8")
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "--junit-xml=report.xml", *arguments],
        cwd=directory,
        env={**environment, "PYTHONPATH": str(root), GRACE_VARIABLE: "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    return ended.stdout, ended.returncode


def outcomes(directory: Path) -> dict[str, str]:
    """Return the result of each test by its name; "" for one that passed."""
    cases = parse(directory / "report.xml").getroot().iter("testcase")  # noqa: S314 - our own file
    return {
        case.get("name", ""): " ".join(each.get("message", "") for each in case) for case in cases
    }


@pytest.mark.slow
def test_tests_that_hang_or_kill_are_named_and_all_others_run(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    files = {
        "a_hangs": HANGS_IN_C,
        "b_ends": ENDS_ITS_PROCESS,
        "c_waits": HANGS_IN_PYTHON,
        "d_hangs_late": HANGS_WHILE_IT_ENDS,
        **{f"e_{number}": PASSES for number in range(3)},
    }
    arguments = ("--numprocesses", "2", "--dist", "loadfile", "--no-loadscope-reorder")
    output, code = run(tmp_path, request.config.rootpath, files, *arguments)

    found = outcomes(tmp_path)
    assert code == pytest.ExitCode.TESTS_FAILED, output
    for test in ("a_hangs.py::test_hangs_in_c", "b_ends.py::test_kills_its_process"):
        assert f"crashed while running 'test_{test}'" in found[test.partition("::")[2]], output
    assert "Timeout" in found["test_hangs_in_python"]
    assert found["test_fails_and_hangs_while_it_ends"]
    assert {name for name, message in found.items() if not message} == {
        "test_before",
        *(f"test_after[{number}]" for number in range(4)),
        "test_first",
        "test_last",
        "test_in_the_same_process",
        "test_after_it",
        "test_passes",
    }
