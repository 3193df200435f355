"""A numpy column that grows at its end."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

_FIRST_ROWS: Final = 1024

_Item = TypeVar("_Item", bound=np.generic)


class GrowingColumn(Generic[_Item]):
    """Values one after the other; room doubles, so that each value is moved a few times only."""

    def __init__(self, dtype: np.dtype[_Item]) -> None:
        """Begin without values."""
        self._room: NDArray[_Item] = np.zeros(_FIRST_ROWS, dtype=dtype)
        self._used = 0

    def __len__(self) -> int:
        """Return the number of values."""
        return self._used

    @property
    def values(self) -> NDArray[_Item]:
        """The values, (rows,): a view, good until the next ``extend``."""
        return self._room[: self._used]

    def extend(self, values: ArrayLike) -> None:
        """Append values; they are converted to the column's type."""
        more = np.asarray(values)
        end = self._used + len(more)
        if end > len(self._room):
            room = np.zeros(max(end, 2 * len(self._room)), dtype=self._room.dtype)
            room[: self._used] = self.values
            self._room = room
        self._room[self._used : end] = more
        self._used = end
