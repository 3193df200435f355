"""Changes of a shard's state to changelog records and back (docs/formats.md, "Changelog").

The key says whose state it is, so that log compaction keeps the last of each: a tag byte, then the
order of an entry or the ticket of a parked visit (8 bytes, big-endian), or the source of a pending
entry (MessagePack). The value is a byte of format version and the change in MessagePack; null for
what is no more.
"""

from __future__ import annotations

from typing import Final

import msgspec

from simhash_core.documents import SourcePosition
from simhash_core.entries import Change, Progress, PutEntry, PutParked, PutPending
from simhash_core.errors import FirstseenError

CHANGELOG_VERSION: Final = 1

_ENTRY: Final = b"e"
_PENDING: Final = b"p"
_PARKED: Final = b"w"
_PROGRESS: Final = b"x"
_NOBODY: Final = SourcePosition("", 0, 0)
"""Stands for the blocker of a parked visit that waits no more; nobody looks at it."""

_encode = msgspec.msgpack.Encoder().encode
_decode_change = msgspec.msgpack.Decoder(Change).decode
_decode_source = msgspec.msgpack.Decoder(SourcePosition).decode


class ChangelogFormatError(FirstseenError):
    """A changelog record that this version cannot read; the message names it."""


def encode_change(change: Change) -> tuple[bytes, bytes | None]:
    """Return the key and the value of the record for ``change``."""
    match change:
        case PutEntry(order):
            return _ENTRY + order.to_bytes(8, "big"), _value(change)
        case PutPending(source, entry):
            return _PENDING + _encode(source), None if entry is None else _value(change)
        case PutParked(ticket, _, visit):
            key = _PARKED + ticket.to_bytes(8, "big")
            return key, None if visit is None else _value(change)
        case Progress():
            return _PROGRESS, _value(change)


def decode_change(key: bytes | None, value: bytes | None, where: str) -> Change:
    """Return the change in a record; ``where`` names the record in errors.

    Raises ``ChangelogFormatError``.
    """
    if not key:
        raise ChangelogFormatError(
            f"the changelog record {where} has no key: who else writes here?"
        )
    if value is not None and value[:1] != bytes((CHANGELOG_VERSION,)):
        raise ChangelogFormatError(
            f"the changelog record {where} has format version {value[:1].hex() or 'none'}, this "
            f"program reads {CHANGELOG_VERSION}: use the program that wrote it, or a newer one"
        )
    try:
        if value is not None:
            change: Change = _decode_change(memoryview(value)[1:])
            return change
        match key[:1]:
            case b"p":
                return PutPending(_decode_source(memoryview(key)[1:]), None)
            case b"w":
                return PutParked(int.from_bytes(key[1:], "big"), _NOBODY, None)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ChangelogFormatError(
            f"the changelog record {where} is damaged: {error}. The changelog is internal; no "
            "other program may write to it"
        ) from error
    raise ChangelogFormatError(f"the changelog record {where} has an unknown key {key.hex()}")


def _value(change: Change) -> bytes:
    return bytes((CHANGELOG_VERSION,)) + _encode(change)
