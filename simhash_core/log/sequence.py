"""Sequence numbers: the place of a document in the log, as one number of 64 bits.

::

    63 ........................... 16 15 ........ 0
    offset of the packet in the log    index in it

Numbers rise in the order of the log, so the earlier of two documents has the lower number.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

INDEX_BITS: Final = 16
PACKET_DOCUMENTS_LIMIT: Final = 1 << INDEX_BITS
_INDEX_MASK: Final = PACKET_DOCUMENTS_LIMIT - 1


def sequence_number(log_offset: int, index: int) -> int:
    """Return the sequence number of a document."""
    return log_offset << INDEX_BITS | index


def sequence_numbers(log_offset: int, documents: int) -> NDArray[np.uint64]:
    """Return the sequence numbers of all documents of a packet, uint64 (documents,)."""
    first = log_offset << INDEX_BITS
    return np.arange(first, first + documents, dtype=np.uint64)


def log_offset_of(sequence: int) -> int:
    """Return the offset in the log of the packet that a document came in."""
    return sequence >> INDEX_BITS


def index_of(sequence: int) -> int:
    """Return the index of a document in its packet."""
    return sequence & _INDEX_MASK
