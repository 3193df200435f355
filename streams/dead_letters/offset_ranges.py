"""A set of offsets of one partition that fits into the metadata of a committed offset.

Offsets are kept as ranges. Written down they are text of at most ``TEXT_CHARACTERS_MAX``, which a
broker takes beside an offset (``offset.metadata.max.bytes``, 4096 by default)::

    1:<tag>:<base85 of zlib of varints>

The varints are, in turn, lengths of what is not in the set and of what is, from offset 0 on. The
``tag`` is whose offsets they are, such as the id of a topic.
"""

from __future__ import annotations

import base64
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final, Self

TEXT_CHARACTERS_MAX: Final = 4000

_VERSION: Final = "1"
_LOW_BITS: Final = 0x7F
_MORE: Final = 0x80
_RANGES_MAX: Final = 1_000_000


class OffsetRanges:
    """Offsets in ascending, separate, half-open ranges."""

    def __init__(self) -> None:
        """Begin empty."""
        self._starts: list[int] = []
        self._stops: list[int] = []

    def __contains__(self, offset: int) -> bool:
        """Whether an offset is in the set."""
        at = bisect_right(self._starts, offset) - 1
        return at >= 0 and offset < self._stops[at]

    def __eq__(self, other: object) -> bool:
        """Whether both hold the same offsets."""
        return isinstance(other, OffsetRanges) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield the ranges, each from its first offset to the one behind its last."""
        return iter(zip(self._starts, self._stops, strict=True))

    @property
    def first_missing(self) -> int:
        """The first offset that is not in the set."""
        return self._stops[0] if self._starts and self._starts[0] == 0 else 0

    def add(self, start: int, stop: int) -> None:
        """Add the offsets from ``start`` to before ``stop``; without effect for none."""
        if start >= stop:
            return
        first = bisect_left(self._stops, start)
        behind = bisect_right(self._starts, stop)
        if first < behind:
            start = min(start, self._starts[first])
            stop = max(stop, self._stops[behind - 1])
        self._starts[first:behind] = [start]
        self._stops[first:behind] = [stop]

    def copy(self) -> OffsetRanges:
        """Return a set of its own with the same offsets."""
        other = OffsetRanges()
        other._starts, other._stops = self._starts.copy(), self._stops.copy()
        return other

    def text(self, tag: str) -> str | None:
        """Return the set as text; None where that would be longer than the limit.

        ``tag`` has no colon in it.
        """
        content = bytearray()
        reached = 0
        for start, stop in self:
            content += _varint(start - reached) + _varint(stop - start)
            reached = stop
        packed = base64.b85encode(zlib.compress(bytes(content), 9)).decode()
        text = f"{_VERSION}:{tag}:{packed}"
        return text if len(text) <= TEXT_CHARACTERS_MAX else None

    @classmethod
    def of_text(cls, text: str, tag: str) -> Self:
        """Return the set that was written down; empty where it is of another tag.

        Raises ``ValueError`` for a text of another form.
        """
        ranges = cls()
        version, _, rest = text.partition(":")
        theirs, colon, packed = rest.partition(":")
        if version != _VERSION or not colon:
            raise ValueError(f"it begins with {text[:20]!r}, not with '{_VERSION}:'")
        if theirs != tag:
            return ranges
        try:
            unpacking = zlib.decompressobj()
            content = unpacking.decompress(base64.b85decode(packed), 2 * _RANGES_MAX)
        except zlib.error as error:
            raise ValueError(f"it cannot be unpacked: {error}") from error
        if not unpacking.eof:
            raise ValueError("it cannot be unpacked: it is truncated or too long")
        numbers = list(_varints(content))
        reached = 0
        for missing, present in zip(numbers[::2], numbers[1::2], strict=True):
            ranges.add(reached + missing, reached + missing + present)
            reached += missing + present
        return ranges


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > _LOW_BITS:
        parts.append(number & _LOW_BITS | _MORE)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def _varints(content: bytes) -> Iterator[int]:
    number = shift = 0
    for part in content:
        number |= (part & _LOW_BITS) << shift
        shift += 7
        if part < _MORE:
            yield number
            number = shift = 0
    if shift:
        raise ValueError("it ends in the middle of a number")
