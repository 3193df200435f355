"""The environment of the peers, ``.venv-peers``: made on first use and for other versions."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from benchmarks.command import ROOT, MeasurementError

DIRECTORY: Final = ROOT / ".venv-peers"
REQUIREMENTS: Final = Path(__file__).with_name("requirements.txt")

_INSTALLED: Final = DIRECTORY / ".installed"
_INSTALL_SECONDS: Final = 300


def is_there() -> bool:
    return _INSTALLED.exists() and _INSTALLED.read_bytes() == REQUIREMENTS.read_bytes()


def peers_python() -> Path:
    """Return the interpreter of the environment, which is made first where it is not there.

    Raises ``MeasurementError`` where it cannot be made.
    """
    python = DIRECTORY / "bin" / "python"
    if is_there():
        return python
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    _run([sys.executable, "-m", "venv", str(DIRECTORY)])
    _run([*pip, "install", "--quiet", "--requirement", str(REQUIREMENTS)])
    shutil.copyfile(REQUIREMENTS, _INSTALLED)
    return python


def _run(command: list[str]) -> None:
    try:
        subprocess.run(
            command, check=True, timeout=_INSTALL_SECONDS, capture_output=True, text=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        output = getattr(error, "stderr", None) or str(error)
        raise MeasurementError(
            f"the environment of the peers, {DIRECTORY.name}, cannot be made; --without-peers does "
            f"without them:\n{output}"
        ) from error
