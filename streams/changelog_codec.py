"""Changes of a shard's state to changelog records and back (docs/formats.md, "Changelog").

The records are the rows of the store (``streams.state_codec``), so that log compaction keeps the
last of each; null for what is no more.
"""

from __future__ import annotations

from typing import Final

from simhash_core.documents import SourcePosition
from simhash_core.entries import Change, Progress, PutEntry, PutParked, PutPending
from simhash_core.errors import FirstseenError
from streams import state_codec as codec

CHANGELOG_VERSION: Final = codec.ROW_VERSION

_NOBODY: Final = SourcePosition("", 0, 0)
"""Stands for the blocker of a parked visit that waits no more; nobody looks at it."""


class ChangelogFormatError(FirstseenError):
    """A changelog record that this version cannot read; the message names it."""


def encode_change(change: Change) -> tuple[bytes, bytes | None]:
    """Return the key and the value of the record for ``change``."""
    match change:
        case PutEntry(order, entry):
            return codec.entry_key(order), codec.encode_entry(entry)
        case PutPending(source, entry):
            return codec.pending_key(source), None if entry is None else codec.encode_entry(entry)
        case PutParked(ticket, _, visit):
            key = codec.parked_key(ticket)
            return key, None if visit is None else codec.encode_parked(change)
        case Progress():
            return codec.PROGRESS_KEY, codec.encode_progress(change)


def decode_change(key: bytes | None, value: bytes | None, where: str) -> Change:
    """Return the change in a record; ``where`` names the record in errors.

    Raises ``ChangelogFormatError``.
    """
    key = check_record(key, value, where)
    try:
        match key[:1]:
            case codec.ENTRY_TAG if value is not None:
                return PutEntry(codec.entry_order(key), codec.decode_entry(value))
            case codec.PENDING_TAG:
                entry = None if value is None else codec.decode_entry(value)
                return PutPending(codec.pending_source(key), entry)
            case codec.PARKED_TAG if value is None:
                return PutParked(codec.parked_ticket(key), _NOBODY, None)
            case codec.PARKED_TAG if value is not None:
                return codec.decode_parked(value)
            case codec.PROGRESS_KEY if value is not None and key == codec.PROGRESS_KEY:
                return codec.decode_progress(value)
    except codec.StateDecodeError as error:
        raise ChangelogFormatError(
            f"the changelog record {where} is damaged: {error}. The changelog is internal; no "
            "other program may write to it"
        ) from error
    raise ChangelogFormatError(f"the changelog record {where} has an unknown key {key.hex()}")


def check_record(key: bytes | None, value: bytes | None, where: str) -> bytes:
    """Return the key of a record that has one, and whose value is of this version or null.

    Raises ``ChangelogFormatError``, in which ``where`` names the record.
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
    return key
