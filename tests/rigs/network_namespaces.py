"""Lets a thread work in a network namespace that ``ip netns`` has made."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

NAMESPACES = Path("/run/netns")  # where ip netns keeps namespaces
NETWORK_NAMESPACE = 0x40000000  # CLONE_NEWNET


def enter_network(namespace: str) -> None:
    """Move the calling thread there; ``os.setns`` exists only since Python 3.12."""
    library = ctypes.CDLL(None, use_errno=True)
    with (NAMESPACES / namespace).open() as file:
        if library.setns(file.fileno(), NETWORK_NAMESPACE):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), namespace)
