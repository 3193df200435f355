"""The headers that say what the filter decided, on every output of a document.

Headers whose name begins with ``firstseen-`` belong to the filter: those that a record brings (it
has been through a filter before, or is sent again) are taken off, and this verdict's are put on
after the record's own.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from simhash_core.documents import Headers, RawRecord, SourcePosition
from simhash_core.errors import UsageError
from simhash_core.index_digest import index_digest
from simhash_core.log.packets import Packet
from simhash_core.scopes import masked
from simhash_core.verdicts import DuplicateOf, Method, Undecidable, Verdict
from streams.documents.timestamps import format_rfc3339

FILTER_HEADER_PREFIX: Final = "firstseen-"

_UNIQUE: Final = (f"{FILTER_HEADER_PREFIX}verdict", b"unique")
_UNDECIDABLE: Final = (f"{FILTER_HEADER_PREFIX}verdict", b"undecidable")
_DUPLICATE: Final = (f"{FILTER_HEADER_PREFIX}verdict", b"duplicate")


class Arrival(NamedTuple):
    """A raw record, and what its output says of the document in it.

    ``fingerprint``: empty for an undecidable document. ``event_time_ms``: milliseconds since 1970.
    """

    record: RawRecord
    source: SourcePosition
    document_id: str
    event_time_ms: int
    fingerprint: bytes


def arrival_of(record: RawRecord, packet: Packet, row: int) -> Arrival:
    """Return a raw record with what its packet says of the document in it."""
    columns = packet.columns
    return Arrival(
        record,
        packet.source(row),
        columns.document_id(row),
        columns.times_ms.item(row),
        b""
        if columns.undecidable.item(row)
        else masked(columns.fingerprints[row].tobytes(), columns.scope(row)),
    )


def verdict_headers(arrival: Arrival, verdict: Verdict, identity: str) -> Headers:
    """Return what every output of a document has: verdict, id, source, fingerprint, index.

    A duplicate has the id of its original, the distance and the method as well. ``identity`` is the
    index identity, whole.
    """
    _, source, document_id, _, fingerprint = arrival
    position = (
        ("firstseen-id", document_id.encode()),
        ("firstseen-source", f"{source.topic}/{source.partition}@{source.offset}".encode()),
    )
    index = index_header(identity)
    if isinstance(verdict, Undecidable):
        return (_UNDECIDABLE, ("firstseen-reason", verdict.reason.encode()), *position, index)
    # A text without a fingerprint can repeat another: it has the same content.
    print_header = (("firstseen-fingerprint", fingerprint.hex().encode()),) if fingerprint else ()
    if isinstance(verdict, DuplicateOf):
        return (
            _DUPLICATE,
            *position,
            *print_header,
            ("firstseen-original", verdict.original_id.encode()),
            ("firstseen-distance", b"%d" % verdict.distance),
            ("firstseen-method", verdict.method.encode()),
            index,
        )
    return (_UNIQUE, *position, *print_header, index)


def match_headers(verdict: DuplicateOf, bits: int) -> Headers:
    """Return what the JSON of a ``duplicate-of`` record would say besides ``verdict_headers``.

    ``bits`` is the width of the index's fingerprints. Raises ``UsageError`` for a distance that
    ``bits`` cannot have.
    """
    agreement = verdict.agreement
    return (
        ("firstseen-original-source", str(verdict.original).encode()),
        (
            "firstseen-original-timestamp",
            format_rfc3339(verdict.original_event_time_ms).encode(),
        ),
        ("firstseen-bits", b"%d" % bits),
        ("firstseen-similarity", f"{similarity(verdict, bits)}".encode()),
        *(() if agreement is None else (("firstseen-agreement", f"{agreement:.6g}".encode()),)),
    )


def similarity(verdict: DuplicateOf, bits: int) -> float:
    """Return 1 − distance / ``bits``, to 6 digits; 1 for equal content.

    Raises ``UsageError`` for a distance that ``bits`` cannot have.
    """
    if not 0 <= verdict.distance <= bits:
        raise UsageError(f"a distance of {verdict.distance} in a fingerprint of {bits} bits")
    return 1.0 if verdict.method is Method.EXACT else round(1 - verdict.distance / bits, 6)


@lru_cache(maxsize=16)
def index_header(identity: str) -> tuple[str, bytes]:
    """Return the header with the short name of an index."""
    return ("firstseen-index", index_digest(identity).encode())


def own_headers(headers: Headers) -> Headers:
    """Return the headers of a raw record that are not the filter's."""
    return tuple(pair for pair in headers if not pair[0].startswith(FILTER_HEADER_PREFIX))
