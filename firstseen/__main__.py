"""Runs the command ``firstseen`` as ``python -m firstseen``."""

from __future__ import annotations

import sys

from streams.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
