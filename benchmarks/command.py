"""The shared parts of the benchmarks' commands: options, errors, notes, and running programs."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from simhash_core.errors import FirstseenError

ROOT: Final = Path(__file__).resolve().parents[1]
STANDARD_OUTPUT: Final = "-"
ONE_THREAD: Final = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
)
"""Environment variables that limit array libraries to one thread."""

_OURS: Final = "FIRSTSEEN_"


class MeasurementError(Exception):
    """A run did not end as it should, so its figures are not valid."""


def new_parser(module: str, docstring: str | None) -> argparse.ArgumentParser:
    """Return a parser for ``python -m MODULE``, with ``--json`` and the docstring's first line."""
    description = (docstring or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument(
        "--json",
        metavar="FILE",
        help=f"write the figures to FILE as JSON; {STANDARD_OUTPUT} is standard output",
    )
    return parser


def add_number(parser: argparse.ArgumentParser, name: str, default: int, what: str) -> None:
    parser.add_argument(name, type=positive, default=default, help=f"{what} (%(default)s)")


def add_without_peers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--without-peers", action="store_true", help="do not install and run other libraries"
    )


def add_state_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--state-dir", type=Path, help="directory for stores (a temporary one)")


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("it must be 1 or more")
    return number


@contextmanager
def errors_reported(*errors: type[Exception]) -> Iterator[None]:
    """End the process with the message of an expected error.

    Expected are ``FirstseenError``, ``MeasurementError`` and ``errors``.
    """
    expected: tuple[type[Exception], ...] = (FirstseenError, MeasurementError, *errors)
    try:
        yield
    except expected as error:
        raise SystemExit(str(error)) from error


def say(what: str) -> None:
    print(what, file=sys.stderr)


def own_environment() -> dict[str, str]:
    """Return the environment without settings of Firstseen."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}


def output_of(command: Sequence[str], seconds: float | None = None) -> bytes:
    """Run a program in the root of the repository, with one thread for arrays; return its output.

    Raises ``MeasurementError`` if it fails, or takes longer than ``seconds``.
    """
    name = " ".join(command[1:4])
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=own_environment() | ONE_THREAD,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise MeasurementError(f"{name} took more than {seconds:g} s") from None
    if done.returncode:
        raise MeasurementError(f"{name}: {(done.stdout + done.stderr).decode()[-2000:]}")
    return done.stdout
