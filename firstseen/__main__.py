"""Runs the command ``firstseen`` as ``python -m firstseen``."""

from __future__ import annotations

from streams.cli.main import run

if __name__ == "__main__":
    run()
