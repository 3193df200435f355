"""Converts times: RFC 3339 strings and milliseconds since 1970.

A time is an int, milliseconds since 1970 in UTC, from year 1 to year 9999, the range of both forms.
Finer fractions are cut off, never rounded, so that a time never moves into the next slice of a
window.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.errors import UsageError

TIME_MS_MIN: Final = -62_135_596_800_000  # 0001-01-01T00:00:00.000Z
TIME_MS_MAX: Final = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_SECOND_MS: Final = 1000

# RFC 3339, section 5.6, and its notes: a blank for the T, and lower case. The standard library's
# parser accepts all of ISO 8601, with week numbers and dates without a time, but no leap second.
_RFC3339: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ](?:[01][0-9]|2[0-3]):[0-5][0-9]):([0-5][0-9]|60)"
    r"((?:\.[0-9]{1,64})?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9]))"
)
_LEAP_SECOND: Final = "60"


class TimestampError(ValueError):
    """A value that is no time; the message never repeats the value."""


def parse_timestamp(value: object) -> int:
    """Return milliseconds since 1970 for an RFC 3339 string or a number of milliseconds.

    A ``datetime``, as from Avro and Protobuf, counts with its offset from UTC. Raises
    ``TimestampError`` for anything else, NaN, and years before 1 or after 9999.
    """
    if isinstance(value, str):
        return parse_rfc3339(value)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise TimestampError("a local time: it needs an offset from UTC")
        return (value - _EPOCH) // _MS
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TimestampError("neither an RFC 3339 string nor a number of milliseconds since 1970")
    # Compare first: NaN and infinity fail it, and have no floor.
    if not TIME_MS_MIN <= value < TIME_MS_MAX + 1:
        raise TimestampError("outside the years 1 to 9999: give milliseconds since 1970")
    return math.floor(value)


def parse_rfc3339(text: str) -> int:
    """Return milliseconds since 1970.

    A leap second (``:60``) is the first second of the next minute, as in Unix time. Raises
    ``TimestampError`` for any other form, such as a time without an offset from UTC.
    """
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise TimestampError(
            "not RFC 3339: write it like 2024-05-01T12:00:00Z, with the offset; hours go to 23, "
            "minutes to 59, seconds to 59 (60 in a leap second)"
        )
    before, second, after = match.groups()
    is_leap = second == _LEAP_SECOND
    try:
        moment = datetime.fromisoformat(f"{before}:{'59' if is_leap else second}{after}".upper())
    except ValueError:
        raise TimestampError("not a valid date") from None
    time_ms = (moment - _EPOCH) // _MS + is_leap * _SECOND_MS
    if not TIME_MS_MIN <= time_ms <= TIME_MS_MAX:
        raise TimestampError("outside the years 1 to 9999, in UTC")
    return time_ms


def format_rfc3339(time_ms: int) -> str:
    """Return RFC 3339 in UTC, to milliseconds; raise ``UsageError`` outside the years 1 to 9999."""
    if not TIME_MS_MIN <= time_ms <= TIME_MS_MAX:
        raise UsageError(f"{time_ms} ms since 1970 is outside the years 1 to 9999")
    moment = _EPOCH + time_ms * _MS
    return f"{moment.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


# ---- The times of many lines together

_FORM: Final = np.frombuffer(b"0000-00-00T00:00:00.000Z", dtype=np.uint8)


def times_ms(texts: Sequence[str]) -> NDArray[np.int64]:
    """Return the times as int64 (texts,); raise ``TimestampError`` for an invalid text.

    Texts in the form ``2024-05-01T12:00:00.000Z`` are parsed together, by numpy.
    """
    if set(map(len, texts)) == {len(_FORM)}:
        joined = "".join(texts).encode()
        characters = np.frombuffer(joined, dtype=np.uint8)
        is_digit = (characters >= ord("0")) & (characters <= ord("9"))
        form = np.where(is_digit, ord("0"), characters)
        if np.array_equal(form, np.tile(_FORM, len(texts))):
            with suppress(ValueError):  # a leap second, or an error that the slower parser names
                # The bytes without the Z, which numpy does not take.
                local = np.frombuffer(joined, f"S{len(_FORM)}").astype(f"S{len(_FORM) - 1}")
                times = local.astype("datetime64[ms]").astype(np.int64)
                if times.min() >= TIME_MS_MIN:  # numpy has a year 0
                    return times
    return np.fromiter(map(parse_rfc3339, texts), np.int64, len(texts))
