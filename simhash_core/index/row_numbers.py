"""Row numbers in three bytes each: a segment has fewer than 2²⁴ documents."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

ROWS_LIMIT: Final = 1 << 24
_BYTES: Final = 3
_NUMBER: Final = np.dtype("<u4")


def pack_rows(rows: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """Return row numbers, uint32 (rows,), as little-endian bytes, uint8 (rows, 3)."""
    as_bytes = rows.astype(_NUMBER, copy=False).view(np.uint8).reshape(-1, _NUMBER.itemsize)
    return np.ascontiguousarray(as_bytes[:, :_BYTES])


def unpack_rows(packed: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Return the row numbers in bytes of ``pack_rows``, uint32 (rows,)."""
    as_bytes = np.zeros((len(packed), _NUMBER.itemsize), dtype=np.uint8)
    as_bytes[:, :_BYTES] = packed
    return as_bytes.reshape(-1).view(_NUMBER)
