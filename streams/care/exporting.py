"""Writes the entries of shards as lines of JSON, in the order of the log."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice

from simhash_core.document_columns import REASON_CODES
from simhash_core.entries import Entry
from simhash_core.errors import IndexMismatchError
from streams.care.entry_lines import EXPORT_SCHEMA, ExportHeader, encode_entry, encode_header
from streams.care.local_shards import LocalShard
from streams.files.output_files import OutputFile
from streams.store.shard_view import ShardView, shard_view
from streams.store.state_codec import entry_key

Report = Callable[[str, int, int], None]

_REASON_MASK = 0x7F
_LINES_AT_ONCE = 2_000


def export_entries(
    application: str, stores: Sequence[LocalShard], output: OutputFile, report: Report
) -> int:
    """Write a header and a line for each entry of shards; return the number of entries.

    The stores are read as they were when each was opened. Raises ``StoreError``, and
    ``IndexMismatchError`` where the shards are not of one index.
    """
    with ExitStack() as opened:
        views = [opened.enter_context(shard_view(shard.path)) for shard in stores]
        identity = views[0].owner.index_identity
        for shard, view in zip(stores, views, strict=True):
            if view.owner.index_identity != identity:
                raise IndexMismatchError(str(shard.path), view.owner.index_identity, identity)
        shards = [shard.partition for shard in stores]
        output.write(
            encode_header(
                ExportHeader(
                    schema=EXPORT_SCHEMA, index=identity, application=application, shards=shards
                )
            )
        )
        total = sum(len(view.store) for view in views)
        count = 0
        merged = heapq.merge(*(_numbered(view) for view in views), key=lambda each: each[0])
        while lines := [
            encode_entry(sequence, entry, _reason(view, sequence, entry))
            for sequence, entry, view in islice(merged, _LINES_AT_ONCE)
        ]:
            output.write(b"".join(lines))
            count += len(lines)
            report("exporting", count, total)
    return count


def _numbered(view: ShardView) -> Iterator[tuple[int, Entry, ShardView]]:
    for sequence, entry in view.store.all_entries():
        yield sequence, entry, view


def _reason(view: ShardView, sequence: int, entry: Entry) -> str:
    """Return why an entry has no fingerprint, "" where it has one."""
    if entry.fingerprint:
        return ""
    row = view.rows.get(entry_key(sequence)) or b""
    return str(REASON_CODES[row[2] & _REASON_MASK])
