"""The environment of the peers, ``.venv-peers``: made at first use, and again for new versions."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

from benchmarks.command import ROOT, MeasurementError, output_of

DIRECTORY: Final = ROOT / ".venv-peers"
REQUIREMENTS: Final = Path(__file__).with_name("requirements.txt")

_INSTALLED: Final = DIRECTORY / ".installed"
_INSTALL_SECONDS: Final = 1800


def peers_python() -> Path:
    """Return the interpreter of the environment; make the environment if it is missing.

    Raises ``MeasurementError`` if that is not possible.
    """
    python = DIRECTORY / "bin" / "python"
    if _INSTALLED.exists() and _INSTALLED.read_bytes() == REQUIREMENTS.read_bytes():
        return python
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    try:
        output_of([sys.executable, "-m", "venv", str(DIRECTORY)], _INSTALL_SECONDS)
        output_of([*pip, "--requirement", str(REQUIREMENTS)], _INSTALL_SECONDS)
    except MeasurementError as error:
        raise MeasurementError(f"{error}\n--without-peers does without {DIRECTORY.name}") from error
    shutil.copyfile(REQUIREMENTS, _INSTALLED)
    return python
