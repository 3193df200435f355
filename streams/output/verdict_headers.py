"""The headers that say what the filter decided, on every output of a document.

Headers whose name begins with ``firstseen-`` belong to the filter: those that a record brings (it
has been through a filter before, or is sent again) are taken off, and this verdict's are put on
after the record's own.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from simhash_core.document_columns import DocumentColumns
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


class Arrivals:
    """Raw records with what their packets say of the documents in them.

    The rows of a packet are converted at once: one value of a column takes as long as a hundred.
    """

    def __init__(self) -> None:
        """Know no packet yet."""
        self._packet: Packet | None = None
        self._ids: list[str] = []
        self._times_ms: list[int] = []
        self._fingerprints: list[bytes] = []

    def of(self, record: RawRecord, source: SourcePosition, packet: Packet, row: int) -> Arrival:
        """Return a raw record as the document in a row of a packet."""
        if packet is not self._packet:
            self._packet = packet
            columns = packet.columns
            self._ids = [each.decode() for each in columns.ids]
            self._times_ms = columns.times_ms.tolist()
            self._fingerprints = _fingerprints(columns)
        return Arrival(record, source, self._ids[row], self._times_ms[row], self._fingerprints[row])


def _fingerprints(columns: DocumentColumns) -> list[bytes]:
    """Return the fingerprints of documents without the masks of their scopes, empty for none."""
    joined = columns.fingerprints.tobytes()
    size = len(joined) // max(1, len(columns))
    fingerprints = [joined[size * row : size * (row + 1)] for row in range(len(columns))]
    if columns.scopes is not None:
        scopes = (scope.decode() for scope in columns.scopes)
        fingerprints = list(map(masked, fingerprints, scopes))
    for row in np.flatnonzero(columns.undecidable).tolist():
        fingerprints[row] = b""
    return fingerprints


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
