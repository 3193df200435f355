"""Which segments of a shard's buckets are in files: the list in the database, kept in step.

The list names segments that together hold every entry with a fingerprint up to some order, so that
after opening only the entries behind it are indexed again. Changes of the list are atomic batches
of their own: a file counts from the batch that names it on, and is deleted after the one that does
not any more. A crash in between leaves files that nobody names, deleted at the next opening.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from rocksdict import WriteBatch

from simhash_core.bucket_index import BucketIndex
from simhash_core.bucket_segment import BucketSegment
from streams import state_codec as codec
from streams.rocksdb_store import RocksStore
from streams.segment_files import (
    SegmentFileError,
    first_order,
    read_segment,
    remove_others,
    segment_name,
    write_segment,
)
from streams.state_codec import SegmentRecord, StateDecodeError
from streams.store.store_errors import StoreFullError

logger = logging.getLogger(__name__)

LEAST_DOCUMENTS: Final = 16_384
"""Smaller segments at the end of the list are indexed again at opening: it takes 0.1 s."""

_BEYOND_ALL: Final = codec.HIGHEST_NUMBER + 1

SEGMENT_DIRECTORY: Final = "buckets"


class SegmentList:
    """The segments of one shard that are in files."""

    def __init__(self, store: RocksStore, *, sync: bool) -> None:
        """Nothing is read before ``open``."""
        self._store = store
        self._sync = sync
        self._directory = store.path / SEGMENT_DIRECTORY
        self._listed: dict[BucketSegment, tuple[int, SegmentRecord]] = {}
        self._seen: list[BucketSegment] = []

    @property
    def covered(self) -> int:
        """The order up to which every entry is in a listed segment; -1 for none."""
        return max((record.last for _, record in self._listed.values()), default=-1)

    @property
    def file_bytes(self) -> int:
        """The bytes of all files."""
        return sum(
            sum(each.nbytes for each in (s.orders, s.fingerprints, s.rows, s.directory, s.keys))
            for s in self._listed
        )

    def open(self) -> list[BucketSegment]:
        """Return the segments that are listed; none where one of them cannot be used.

        Raises ``StoreError``.
        """
        lower, upper = codec.SEGMENT_TAG, codec.after(codec.SEGMENT_TAG)
        rows = zip(*self._store.rows_between(lower, upper), strict=True)
        try:
            listed = [
                (codec.segment_first(key), codec.decode_segment(value)) for key, value in rows
            ]
        except StateDecodeError as error:
            raise self._store.damaged(str(error)) from error
        try:
            segments = [read_segment(self._directory, *each) for each in listed]
        except SegmentFileError as error:
            logger.warning("buckets are indexed again from the entries: %s", error)
            segments = []
        self._listed = dict(zip(segments, listed, strict=False))
        if listed and not segments:
            self._write_list({}, [first for first, _ in listed])
        self._remove_unlisted()
        return segments

    def keep(self, index: BucketIndex) -> None:
        """Bring files and list in step with the segments of ``index``.

        Where there is no room for a file, its segment stays in memory, and is tried again when the
        next one comes. Raises ``StoreError``.
        """
        segments = list(index.segments)
        if segments == self._seen:
            return
        wanted = self._to_list(segments, index.lowest_unsorted)
        listed: dict[BucketSegment, tuple[int, SegmentRecord]] = {}
        try:
            for segment in wanted:
                if segment in self._listed:
                    listed[segment] = self._listed[segment]
                    continue
                record = write_segment(self._directory, segment, sync=self._sync)
                first = first_order(segment)
                mapped = read_segment(self._directory, first, record)
                index.replace(segment, mapped)
                listed[mapped] = first, record
        except (OSError, SegmentFileError) as error:
            logger.warning("%s: buckets stay in memory: %s", self._directory, error)
            return
        finally:
            self._seen = list(index.segments)
        if listed.keys() == self._listed.keys():
            return
        try:
            self._write_list(listed, [first for first, _ in self._listed.values()])
        except StoreFullError as error:
            # The old list is as good; and the next commit meets the full disk by itself.
            logger.warning("%s: the list of segments stays as it is: %s", self._directory, error)
            return
        self._listed = listed
        self._remove_unlisted()

    def forget(self, batch: WriteBatch) -> None:
        """Add to ``batch`` that no segment is listed: an entry came whose order is covered."""
        for first, _ in self._listed.values():
            batch.delete(codec.segment_key(first))
        self._listed = {}
        self._seen = []

    def _to_list(
        self, segments: Sequence[BucketSegment], lowest_unsorted: int | None
    ) -> Sequence[BucketSegment]:
        """Return the segments to list: up to the last large one, and none of them left out.

        Entries up to the highest order listed are not read at opening, so none may be elsewhere.
        Orders rise, so that is no question but for a table that is made to have others.
        """
        large = [at for at, each in enumerate(segments, 1) if each.documents >= LEAST_DOCUMENTS]
        firsts = [first_order(each) for each in segments]
        lasts = [int(each.orders.max()) for each in segments]
        elsewhere = [] if lowest_unsorted is None else [lowest_unsorted]
        for count in range(large[-1] if large else 0, 0, -1):
            if max(lasts[:count]) < min([*firsts[count:], *elsewhere], default=_BEYOND_ALL):
                return segments[:count]
        return []

    def _write_list(
        self, listed: dict[BucketSegment, tuple[int, SegmentRecord]], before: Sequence[int]
    ) -> None:
        batch = WriteBatch(raw_mode=True)
        for first in before:
            batch.delete(codec.segment_key(first))
        for first, record in listed.values():
            batch.put(codec.segment_key(first), codec.encode_segment(record))
        self._store.write(batch)

    def _remove_unlisted(self) -> None:
        remove_others(self._directory, [segment_name(*each) for each in self._listed.values()])
