"""Times as they stand in records: RFC 3339 strings and milliseconds since 1970, both ways.

Inside Firstseen a time is an int, milliseconds since 1970 in UTC, from year 1 to year 9999: that
is what both spellings can say. Seconds finer than a millisecond are cut off, never rounded, so
that a time never moves into the next slice of a window.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta
from typing import Final

from simhash_core.errors import UsageError

TIME_MS_MIN: Final = -62_135_596_800_000
"""0001-01-01T00:00:00.000Z"""
TIME_MS_MAX: Final = 253_402_300_799_999
"""9999-12-31T23:59:59.999Z"""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_MS: Final = timedelta(milliseconds=1)

# RFC 3339, section 5.6; a blank for the T and lower case are what its notes allow. The standard
# library's parser takes all of ISO 8601, week numbers and bare dates among it.
_RFC3339: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,64}))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_HOUR_MAX, _MINUTE_MAX, _LEAP_SECOND = 23, 59, 60


class TimestampError(ValueError):
    """A value that is no time; the message says what is wrong, and never repeats the value."""


def parse_timestamp(value: object) -> int:
    """Return milliseconds since 1970 for an RFC 3339 string, or for a number of milliseconds.

    A ``datetime``, which Avro and Protobuf have, counts with its offset from UTC.

    Raises ``TimestampError`` for anything else: another type, NaN, years before 1 or past 9999.
    """
    if isinstance(value, str):
        return parse_rfc3339(value)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise TimestampError("a local time: it needs an offset from UTC")
        return (value - _EPOCH) // _MS
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TimestampError("neither an RFC 3339 string nor a number of milliseconds since 1970")
    # The comparison first: NaN fails it, and infinity, which have no floor.
    if not TIME_MS_MIN <= value < TIME_MS_MAX + 1:
        raise TimestampError("outside the years 1 to 9999: give milliseconds since 1970")
    return math.floor(value)


def parse_rfc3339(text: str) -> int:
    """Return milliseconds since 1970 for an RFC 3339 date and time.

    A leap second (``:60``) is the first second of the next minute, as it is in Unix time. Raises
    ``TimestampError`` for any other form, such as a time without an offset from UTC.
    """
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise TimestampError("not RFC 3339: write it like 2024-05-01T12:00:00Z, with the offset")
    year, month, day, hour, minute, second, fraction, sign, off_hour, off_minute = match.groups()
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH_DAY
    except ValueError:
        raise TimestampError("not a day of the calendar") from None
    clock = (int(hour), int(minute), int(second))
    offset = (int(off_hour or 0), int(off_minute or 0))
    if (
        max(clock[0], offset[0]) > _HOUR_MAX
        or max(clock[1], offset[1]) > _MINUTE_MAX
        or clock[2] > _LEAP_SECOND
    ):
        raise TimestampError("hours go to 23, minutes to 59, seconds to 59 (60 in a leap second)")
    east = -1 if sign == "-" else 1
    minutes = days * 1440 + clock[0] * 60 + clock[1] - east * (offset[0] * 60 + offset[1])
    time_ms = (minutes * 60 + clock[2]) * 1000 + int(f"{fraction or ''}000"[:3])
    if not TIME_MS_MIN <= time_ms <= TIME_MS_MAX:
        raise TimestampError("outside the years 1 to 9999, in UTC")
    return time_ms


def format_rfc3339(time_ms: int) -> str:
    """Return a time as RFC 3339 in UTC with three digits of milliseconds.

    Raises ``UsageError`` outside the years 1 to 9999, which no document read here is in.
    """
    if not TIME_MS_MIN <= time_ms <= TIME_MS_MAX:
        raise UsageError(f"{time_ms} ms since 1970 is outside the years 1 to 9999")
    moment = _EPOCH + time_ms * _MS
    return f"{moment.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"
