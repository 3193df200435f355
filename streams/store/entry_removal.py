"""Which records of the changelog entries are in, so that what is removed leaves it as well.

Deleted entries are named by one record for each record of entries; once a packet has no entry left,
its records get tombstones, and so they do when a packet has expired. No row says which records
there are: the first record of a packet begins with the first of its entries. Where that may not
hold, as some of its entries are deleted or it was committed in parts, there is a row ``r``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from simhash_core.log.sequence import log_offset_of, sequence_number
from streams.store import state_codec as codec
from streams.store.changelog_codec import LoggedDeletions, LoggedEnd
from streams.store.rocksdb_store import RocksStore, Rows

EXPIRED_ROWS: Final = 4096
"""Entries that expire in one commit, about: a commit is to stay small."""

_ROWS: Final = 1024


class Removal(NamedTuple):
    """What is removed. ``deletions``: of records that keep other entries. ``ends``: of packets."""

    deletions: Sequence[LoggedDeletions]
    ends: Sequence[LoggedEnd]


class Expiry(NamedTuple):
    """What expires. ``before``: the sequence number below which no entry is left then.

    ``ends``: of the packets. ``rows``: of the entries. ``whole``: whether nothing that has expired
    is left for later.
    """

    before: int
    ends: Sequence[LoggedEnd]
    rows: Rows
    whole: bool


def packet_range(sequence: int) -> tuple[int, int]:
    """Return the first sequence number of a packet, and that of the next; of any in it."""
    packet = log_offset_of(sequence)
    return sequence_number(packet, 0), sequence_number(packet + 1, 0)


def deletions_between(store: RocksStore, low: int, high: int) -> dict[int, list[int]]:
    """Return the rows ``r`` of records that begin from ``low`` up to, not including, ``high``.

    By the first entry: the sequence numbers of those that are deleted. Raises ``StateDecodeError``.
    """
    deletions: dict[int, list[int]] = {}
    for keys, values in store.scan(codec.deletions_key(low), codec.deletions_key(high), _ROWS):
        for key, value in zip(keys, values, strict=True):
            first = codec.deletions_first(key)
            deletions[first] = [first + each for each in codec.decode_deletions(value)]
    return deletions


def removal_of(store: RocksStore, sequences: Iterable[int], more: Container[int] = ()) -> Removal:
    """Return what the removal of entries, which are there, is in the changelog.

    ``more``: packets, by their offsets in the log, that get more entries in the same commit.
    """
    deletions: list[LoggedDeletions] = []
    ends: list[LoggedEnd] = []
    for packet, group in groupby(sorted(sequences), log_offset_of):
        removed = set(group)
        low, high = packet_range(min(removed))
        records = deletions_between(store, low, high)
        keys = _first_keys(store, low, high, len(removed) + 1)
        left = [codec.entry_sequence(key) for key in keys]
        firsts = _firsts(records, left[0])
        if set(left) <= removed and packet not in more:
            ends += map(LoggedEnd, firsts)
            continue
        by_record: dict[int, set[int]] = {}
        for sequence in removed:
            first = firsts[bisect_right(firsts, sequence) - 1]
            by_record.setdefault(first, set(records.get(first, ()))).add(sequence)
        deletions += [LoggedDeletions(first, sorted(each)) for first, each in by_record.items()]
    return Removal(deletions, ends)


def expiry_of(store: RocksStore, after: int, before: int) -> Expiry:
    """Return what expires next of the entries from ``after`` up to, not including, ``before``."""
    keys: list[bytes] = []
    values: list[bytes] = []
    whole = True
    for more_keys, more_values in store.scan(
        codec.entry_key(after), codec.entry_key(before), EXPIRED_ROWS
    ):
        if len(keys) >= EXPIRED_ROWS:
            whole = False
            break
        keys += more_keys
        values += more_values
    if not whole:
        # Up to the end of a packet: the last may have more entries than were read.
        before = packet_range(codec.entry_sequence(keys[-1]))[0]
        if before <= codec.entry_sequence(keys[0]):  # it is one large packet
            low, before = packet_range(codec.entry_sequence(keys[-1]))
            keys, values = _all_rows(store, low, before)
        else:
            kept = sum(codec.entry_sequence(key) < before for key in keys)
            keys, values = keys[:kept], values[:kept]
    records = deletions_between(store, after, before)
    ends = [LoggedEnd(first) for first in _all_firsts(keys, records)]
    return Expiry(before, ends, (keys, values), whole)


def _all_firsts(keys: Sequence[bytes], records: Mapping[int, Sequence[int]]) -> Iterator[int]:
    """Yield the first entries of all records of whole packets."""
    yield from records
    with_rows = {log_offset_of(first): first for first in sorted(records, reverse=True)}
    for packet, group in groupby(map(codec.entry_sequence, keys), log_offset_of):
        first = next(iter(group))
        if first < with_rows.get(packet, first + 1):
            yield first


def _firsts(records: Mapping[int, Sequence[int]], first_left: int) -> list[int]:
    """Return the first entries of the records of one packet, rising."""
    known = set(records)
    if first_left < min(known, default=first_left + 1):
        known.add(first_left)
    return sorted(known)


def _first_keys(store: RocksStore, low: int, high: int, limit: int) -> list[bytes]:
    for keys, _ in store.scan(codec.entry_key(low), codec.entry_key(high), limit):
        return keys
    return []


def _all_rows(store: RocksStore, low: int, high: int) -> Rows:
    keys: list[bytes] = []
    values: list[bytes] = []
    for more_keys, more_values in store.scan(codec.entry_key(low), codec.entry_key(high), _ROWS):
        keys += more_keys
        values += more_values
    return keys, values
