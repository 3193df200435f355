"""The messages between agents and shards (design: ordered bucket locks).

A *probe* is all that a shard needs of one document: its fingerprint to look it up, and the raw
record to put out once it is decided. Messages reach a shard from *senders*, numbered upwards by
each sender, so that one delivered twice is told by its number:

- the fingerprint agent, a sender for each raw partition (``raw_sender``), numbers with raw offsets;
- another shard (``shard_sender``) numbers with a counter for each receiver.
"""

from __future__ import annotations

import msgspec

from simhash_core.documents import RawRecord, SourcePosition
from simhash_core.rejections import Rejection
from simhash_core.verdicts import UndecidableReason


class Probe(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One document on its way through the shards.

    ``fingerprint`` is empty exactly where ``undecidable`` says why. ``content_digest``: 16 bytes.
    ``sketch`` is what candidates are confirmed by, empty where the index confirms none.
    """

    source: SourcePosition
    document_id: str
    event_time_ms: int
    fingerprint: bytes
    content_digest: bytes
    undecidable: UndecidableReason | None
    record: RawRecord
    sketch: bytes = b""


class Visit(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="visit"):
    """A document comes to a shard that owns some of its buckets.

    ``passed``: the partitions, ascending, where it has left a pending entry so far.
    """

    probe: Probe
    passed: tuple[int, ...] = ()


class Confirm(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="confirm"):
    """The document of this arrival is unique: its pending entry becomes a confirmed one."""

    source: SourcePosition


class Withdraw(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="withdraw"):
    """The document of this arrival is a duplicate: its pending entry goes."""

    source: SourcePosition


class Refuse(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="refuse"):
    """A raw record that cannot be read, to become a dead letter.

    It takes the way of a first visit, because the number check there is what keeps a record that
    is read again after a crash from being put out twice.
    """

    rejection: Rejection


Message = Visit | Confirm | Withdraw | Refuse


class Packet(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Messages of one sender to one shard, in order, each with its number.

    ``after`` is the number of the message that this sender sent to this shard before, −1 where the
    sender knows of none (a fingerprint agent that has just begun). A shard that has not received
    that one has lost something, and says so.
    """

    sender: str
    after: int
    messages: tuple[tuple[int, Message], ...]


def raw_sender(topic: str, partition: int, topic_id: str = "") -> str:
    """Return the name of the sender of first visits from one raw partition.

    ``topic_id`` tells a topic from one of the same name that was deleted: its offsets, which are
    the numbers of this sender, begin at 0 again.
    """
    return f"raw/{topic}/{partition}/{topic_id}" if topic_id else f"raw/{topic}/{partition}"


def shard_sender(partition: int) -> str:
    """Return the name of a shard as a sender."""
    return f"shard/{partition}"
