"""What a shard remembers: entries, documents under way, and how far it has come.

Everything here is written to the changelog and to RocksDB as *changes*: a key and its new value,
None for none. The last change of a key is its state, which is what log compaction keeps.
"""

from __future__ import annotations

import msgspec

from simhash_core.documents import SourcePosition
from simhash_core.probes import Visit


class Entry(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A document in the block table: what a duplicate of it must name, and what it is judged by.

    ``fingerprint`` is empty for an undecidable document, which is met by its content alone.
    ``sketch`` is what candidates are confirmed by, empty where the index confirms none.
    """

    source: SourcePosition
    document_id: str
    event_time_ms: int
    fingerprint: bytes
    content_digest: bytes
    sketch: bytes = b""


class PutEntry(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="entry"):
    """A confirmed entry; ``order`` is its number in this shard, rising in order of confirmation."""

    order: int
    entry: Entry


class PutPending(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="pending"):
    """A pending entry: its document is still on its way. With ``entry`` None it is gone."""

    source: SourcePosition
    entry: Entry | None


class PutParked(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="parked"):
    """A visit that waits, whole, behind the pending entry of ``behind``; None: no longer.

    ``ticket`` numbers the parked visits of a shard in the order in which they began to wait.
    """

    ticket: int
    behind: SourcePosition
    visit: Visit | None


class Progress(msgspec.Struct, frozen=True, array_like=True, tag="progress"):
    """How far a shard has come.

    ``offset``: the next offset of its probes partition. ``received``: the highest number by
    sender. ``sent``: messages sent by receiving partition. ``next_order`` and ``next_ticket``: the
    numbers that the next entry and the next parked visit get. ``log_offset``: the next offset of
    the changelog that the table has not taken in, and ``log_time_ms`` when the record before that
    was written, milliseconds since 1970; both are 0 in the changelog itself. ``index``: the index
    identity of those who wrote it.
    """

    offset: int = 0
    received: dict[str, int] = {}
    sent: dict[int, int] = {}
    next_order: int = 0
    next_ticket: int = 0
    log_offset: int = 0
    log_time_ms: int = 0
    index: str = ""


Change = PutEntry | PutPending | PutParked | Progress


class InFlight(msgspec.Struct):
    """The part of a shard's state that is not in the block table, as it is read at opening."""

    progress: Progress
    pending: dict[SourcePosition, Entry]
    parked: dict[int, PutParked]
