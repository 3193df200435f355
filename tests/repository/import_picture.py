"""Prints which folder of the packages imports which: ``python -m tests.repository.import_picture``.

Lowest first: a folder stands below all that it imports. ``tests/repository/layers.py`` has the
rules, and a test holds them.
"""

from __future__ import annotations

import sys

from tests.repository.layers import LAYERS, picture
from tests.repository.source_tree import modules_of


def main() -> int:
    """Print the picture of each package."""
    for package in LAYERS:
        sys.stdout.write(f"{package}\n\n{picture(modules_of(package))}\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
