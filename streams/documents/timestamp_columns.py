"""Times of many lines at once, RFC 3339 to milliseconds since 1970.

Nearly all files have one form, ``2024-05-01T12:00:00.000Z``, which is also what Firstseen writes.
Those are read together, a column of digits at a time; any other form is read by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streams.documents.timestamps import parse_rfc3339

_FORM: Final = b"0000-00-00T00:00:00.000Z"
_SIZE: Final = len(_FORM)
_IS_DIGIT: Final = np.frombuffer(_FORM, dtype=np.uint8) == ord("0")
_PLACES: Final = np.frombuffer(_FORM, dtype=np.uint8)
_FIELDS: Final = tuple(
    slice(first, last)
    for first, last in ((0, 4), (4, 6), (6, 8), (8, 10), (10, 12), (12, 14), (14, 17))
)
_MONTHS, _HOURS, _MINUTES, _NINE = 12, 24, 60, 9


def times_ms(texts: Sequence[str]) -> NDArray[np.int64]:
    """Return milliseconds since 1970 for RFC 3339 dates and times, int64 (texts,).

    As ``parse_rfc3339`` does for each. Raises ``TimestampError`` for a text that is none.
    """
    joined = "".join(texts)
    if not joined or len(joined) != _SIZE * len(texts) or not joined.isascii():
        return _one_by_one(texts)
    # A row for each place of the form: numbers are made of whole rows.
    characters = np.frombuffer(joined.encode(), dtype=np.uint8).reshape(-1, _SIZE).T.copy()
    digits = characters[_IS_DIGIT] - np.uint8(ord("0"))
    if not np.all(characters[~_IS_DIGIT] == _PLACES[~_IS_DIGIT, None]) or digits.max() > _NINE:
        return _one_by_one(texts)
    year, month, day, hour, minute, second, ms = (_number(digits[each]) for each in _FIELDS)
    if not np.all((year >= 1) & (month >= 1) & (month <= _MONTHS)):
        return _one_by_one(texts)
    months = ((year - 1970) * _MONTHS + month - 1).astype("datetime64[M]")
    first = months.astype("datetime64[D]").astype(np.int64)
    end = (months + 1).astype("datetime64[D]").astype(np.int64)
    is_usual = (day >= 1) & (day <= end - first)
    is_usual &= (hour < _HOURS) & (minute < _MINUTES) & (second < _MINUTES)
    if not is_usual.all():
        return _one_by_one(texts)  # a leap second, or an error to be named
    seconds = (((first + day - 1) * _HOURS + hour) * _MINUTES + minute) * _MINUTES + second
    times: NDArray[np.int64] = seconds * 1000 + ms
    return times


def _number(digits: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the numbers that digits make, (digits, numbers), the first the highest."""
    number: NDArray[np.int64] = digits[0].astype(np.int64)
    for each in digits[1:]:
        number *= 10
        number += each
    return number


def _one_by_one(texts: Sequence[str]) -> NDArray[np.int64]:
    return np.fromiter(map(parse_rfc3339, texts), np.int64, len(texts))
