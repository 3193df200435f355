"""Hypothesis strategies for documents of every kind."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from hypothesis import strategies as st

from simhash_core.document_columns import DELETE, DOCUMENT, BytesColumn, DocumentColumns
from simhash_core.log.records import Bundle, Chain, Packet, Sender

_Item = TypeVar("_Item")

int64 = st.integers(-(2**63), 2**63 - 1)
offsets = st.integers(0, 2**63 - 1)
ids = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
chains = st.builds(Chain, names, names, st.integers(0, 2**31 - 1))


@st.composite
def columns(
    draw: st.DrawFn, least: int = 0, most: int = 6, words: int | None = None
) -> DocumentColumns:
    """Draw columns of documents, some undecidable and some without a sketch."""
    raw = sorted(draw(st.sets(offsets, min_size=least, max_size=most)))
    count = len(raw)
    words = words or draw(st.integers(1, 8))
    undecidable = np.array(draw(_lists(st.integers(0, 3), count)), dtype=np.uint8).reshape(count)
    fingerprints = np.frombuffer(
        b"".join(draw(st.binary(min_size=8 * words, max_size=8 * words)) for _ in raw),
        dtype=np.uint64,
    ).reshape(count, words)
    fingerprints = np.where(undecidable[:, None] == 0, fingerprints, np.uint64(0))
    digests = b"".join(draw(st.binary(min_size=16, max_size=16)) for _ in raw)
    operations = draw(_lists(st.sampled_from((DOCUMENT, DELETE)), count))
    scopes = draw(_lists(ids, count))
    sketches = st.just(b"") if draw(st.booleans()) else st.binary(max_size=9)
    return DocumentColumns(
        np.array(raw, dtype=np.int64),
        np.array(draw(_lists(int64, count)), dtype=np.int64),
        BytesColumn.of([each.encode() for each in draw(_lists(ids, count))]),
        np.frombuffer(digests, dtype=np.uint8).reshape(count, 16),
        fingerprints,
        undecidable,
        BytesColumn.of(draw(_lists(sketches, count))),
        np.array(operations, dtype=np.uint8) if DELETE in operations else None,
        BytesColumn.of([each.encode() for each in scopes]) if any(scopes) else None,
    )


@st.composite
def bundles(draw: st.DrawFn) -> Bundle:
    words = draw(st.integers(1, 8))
    parts = draw(st.lists(columns(least=1, words=words), min_size=1, max_size=4))
    topics = draw(st.lists(st.tuples(names, names), min_size=1, max_size=2))
    partitions = _lists(st.integers(0, 2**31 - 1), len(parts), unique=True)
    worker = draw(names)
    packets = []
    for inside, partition in zip(parts, draw(partitions), strict=True):
        previous = draw(st.integers(-1, int(inside.offsets[0]) - 1))
        last = draw(st.integers(int(inside.offsets[-1]), 2**63 - 1))
        chain = Chain(*draw(st.sampled_from(topics)), partition)
        sender = Sender(worker, draw(st.integers(0, 2**63 - 1)))
        packets.append(Packet(chain, sender, previous, last, inside))
    return Bundle.of(packets)


packets = bundles().flatmap(lambda bundle: st.sampled_from([*bundle.packets()]))


def _lists(
    items: st.SearchStrategy[_Item], count: int, *, unique: bool = False
) -> st.SearchStrategy[list[_Item]]:
    return st.lists(items, min_size=count, max_size=count, unique=unique)


def same_bundle(left: object, right: Bundle) -> bool:
    return (
        isinstance(left, Bundle)
        and (left.worker, [*left.segments]) == (right.worker, [*right.segments])
        and same_columns(left.columns, right.columns)
    )


def same_columns(left: DocumentColumns, right: DocumentColumns) -> bool:
    """Return whether columns are equal, with their types."""
    return _parts(left) == _parts(right)


def _parts(found: DocumentColumns) -> tuple[object, ...]:
    numbers = (found.offsets, found.times_ms, found.digests, found.fingerprints, found.undecidable)
    strings = (found.ids, found.sketches)
    documents = found.are_documents.tolist()
    return (
        *((each.dtype, each.shape, each.tolist()) for each in numbers),
        *((each.bounds.dtype, each.bounds.tolist(), each.joined) for each in strings),
        [(is_document, found.scope(row)) for row, is_document in enumerate(documents)],
    )
