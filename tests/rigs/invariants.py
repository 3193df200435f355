"""Checks the invariants of the outputs by brute force on plain data.

It uses only the block scheme and the verifier of the product, and computes the distances of all
pairs itself. A document is named by its source position as a string. The functions raise
`AssertionError` with the first few violations, and return how many items they checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.text.fingerprinter import Fingerprinted, Fingerprinter
from simhash_core.text.verification import Verifier

SHOWN = 5
ROWS_A_STEP = 64  # rows that are compared with all others in one step; it limits the memory


class Nearness(NamedTuple):
    scheme: BlockScheme
    verifier: Verifier | None = None
    window_ms: int | None = None

    @classmethod
    def of(cls, fingerprinter: Fingerprinter) -> Nearness:
        window_ms = fingerprinter.profile.window
        return cls(fingerprinter.scheme, fingerprinter.verifier, window_ms)

    def may_be_candidates(self, a: Known, b: Known) -> bool:
        if a.scope != b.scope:
            return False
        return self.window_ms is None or abs(a.time_ms - b.time_ms) <= self.window_ms

    def confirms(self, distance: int, a: Known, b: Known) -> bool:
        """Return whether two documents are near, if their distance is within the threshold."""
        if not self.may_be_candidates(a, b):
            return False
        if self.verifier is None or a.content_digest == b.content_digest:
            return True
        return self.verifier.similarity(distance, a.sketch, b.sketch) is not None

    def share_a_bucket(self, a: Known, b: Known) -> bool:
        prints = _bits([a.fingerprint or b"", b.fingerprint or b""], self.scheme.bits)
        if _share_a_block(prints[0], prints[1], self.scheme):
            return True
        for band in range(self.scheme.bands):
            key = band_key(self.scheme, a.sketch, band)
            if any(key) and key == band_key(self.scheme, b.sketch, band):
                return True
        return False


def band_key(scheme: BlockScheme, sketch: bytes, band: int) -> bytes:
    """Return the key of a band as docs/formats.md defines it; empty if the sketch has none."""
    if scheme.band_bins == 2:
        at = len(sketch) - 4 * (scheme.bands - band)
        return sketch[at : at + 4] if at >= 0 else b""
    group = (scheme.bands + 2) // 3
    if 2 * len(sketch) < 9 * group:
        return b""
    key = 0
    for number, shift in enumerate((0, 7, 14)):
        bin_ = number * group + (band % group + number * (band // group)) % group
        half = int(sketch.hex()[bin_], 16)
        key ^= (half << 8 | sketch[len(sketch) - 3 * group + bin_]) << shift
    return key.to_bytes(4, "little")


class Known(NamedTuple):
    """A document. Without a fingerprint it is undecidable: only equal content makes a duplicate."""

    id: str
    fingerprint: bytes | None
    content_digest: bytes
    sketch: bytes = b""
    time_ms: int = 0
    scope: str = ""

    @classmethod
    def of(cls, document_id: str, made: Fingerprinted, time_ms: int = 0, scope: str = "") -> Known:
        fingerprint = made.fingerprint or None
        return cls(document_id, fingerprint, made.content_digest, made.sketch, time_ms, scope)


class Repeat(NamedTuple):
    """The content of a duplicate's record: both source positions, and the distance."""

    source: str
    original: str
    distance: int


def check_separation(uniques: Mapping[str, Known], near: Nearness) -> int:
    """Check that no two uniques are near and share a bucket, and no two undecidable ones are equal.

    Returns the number of pairs within the distance that share no bucket. Both may be unique; a
    guaranteed scheme has no such pairs.
    """
    sources = [source for source, known in uniques.items() if known.fingerprint]
    found, missed = [], 0
    prints = [uniques[source].fingerprint or b"" for source in sources]
    for one, two, distance in near_pairs(prints, near.scheme):
        a, b = uniques[sources[one]], uniques[sources[two]]
        if not near.confirms(distance, a, b):
            continue
        if near.share_a_bucket(a, b):
            found.append(f"{sources[one]} and {sources[two]}: {distance} bits apart")
        else:
            missed += 1
    by_content: dict[bytes, str] = {}
    for source, known in uniques.items():
        if not known.fingerprint:
            other = by_content.setdefault(known.content_digest, source)
            if other != source:
                found.append(f"{other} and {source}: equal content")
    _none(found, "pairs of uniques are near")
    return missed


def near_pairs(prints: Sequence[bytes], scheme: BlockScheme) -> Iterator[tuple[int, int, int]]:
    """Compare all pairs; yield those within the distance, as two indices and the distance."""
    rows = np.frombuffer(b"".join(prints), np.uint64).reshape(len(prints), scheme.bits // 64)
    columns = np.ascontiguousarray(rows.T)
    for start in range(0, len(prints), ROWS_A_STEP):
        part = rows[start : start + ROWS_A_STEP]
        distances: NDArray[np.uint16] = np.zeros((len(part), len(prints) - start), np.uint16)
        for word, column in enumerate(columns):
            distances += np.bitwise_count(part[:, word, None] ^ column[start:])
        for row, other in zip(*np.nonzero(distances <= scheme.distance), strict=True):
            if row < other:  # each pair once, and no document with itself
                yield start + int(row), start + int(other), int(distances[row, other])


def check_grounding(
    documents: Mapping[str, Known],
    uniques: Collection[str],
    duplicates: Sequence[Repeat],
    near: Nearness,
) -> int:
    """Check that every duplicate names a unique that is near, at the recorded distance.

    `documents` has every document, `uniques` the sources of the unique ones. Returns the number of
    duplicates.
    """
    found = []
    for repeat in duplicates:
        wrong = _ungrounded(repeat, documents, uniques, near)
        if wrong:
            found.append(f"{repeat.source} of {repeat.original}: {wrong}")
    _none(found, "duplicates are not grounded")
    return len(duplicates)


def check_conservation(arrivals: Iterable[str], *outputs: Iterable[str]) -> int:
    """Check that every arrival is in exactly one output, once, and that nothing else is.

    Returns the number of arrivals.
    """
    expected = Counter(iter(arrivals))  # iter, because Counter would take a mapping's values
    output_counts = Counter(source for output in outputs for source in output)
    found = [f"{source} arrived twice" for source, count in expected.items() if count > 1]
    found += [f"{source} is lost" for source in expected.keys() - output_counts.keys()]
    found += [f"{source} never arrived" for source in output_counts.keys() - expected.keys()]
    found += [f"{source} is put out {n} times" for source, n in output_counts.items() if n > 1]
    _none(found, "records are not in exactly one output")
    return len(expected)


def _ungrounded(
    repeat: Repeat, documents: Mapping[str, Known], uniques: Collection[str], near: Nearness
) -> str | None:
    """Return what is wrong with a duplicate, or None."""
    if repeat.source == repeat.original:
        return "names itself"
    if repeat.source in uniques:
        return "is on unique as well"
    if repeat.original not in uniques:
        return "the original is not unique"
    mine, original = documents[repeat.source], documents[repeat.original]
    if mine.fingerprint and original.fingerprint:
        return _not_near(mine, original, repeat.distance, near)
    if mine.fingerprint or original.fingerprint or mine.content_digest != original.content_digest:
        return "cannot be compared, and the contents differ"
    return None if repeat.distance == 0 else f"equal content at distance {repeat.distance}"


def _not_near(mine: Known, original: Known, recorded: int, near: Nearness) -> str | None:
    """Return why two fingerprints are not near at the recorded distance, or None."""
    a, b = _bits([mine.fingerprint or b"", original.fingerprint or b""], near.scheme.bits)
    distance = int((a != b).sum())
    if distance != recorded:
        return f"{distance} bits apart, not {recorded}"
    if distance > near.scheme.distance:
        return f"{distance} bits apart, near is up to {near.scheme.distance}"
    if not near.confirms(distance, mine, original):
        return "the sketches do not agree"
    if not near.share_a_bucket(mine, original):
        return "no bucket is shared: they cannot be candidates"
    return None


def _bits(fingerprints: Sequence[bytes], bits: int) -> NDArray[np.uint8]:
    packed = np.frombuffer(b"".join(fingerprints), dtype=np.uint8)
    return np.unpackbits(packed.reshape(len(fingerprints), bits // 8), axis=1)


def _share_a_block(a: NDArray[np.uint8], b: NDArray[np.uint8], scheme: BlockScheme) -> bool:
    if not scheme.blocks:
        return False
    covered = scheme.blocks * scheme.block_bits
    equal = (a[:covered] == b[:covered]).reshape(scheme.blocks, scheme.block_bits)
    return bool(equal.all(axis=1).any() or (scheme.cuts > 1 and equal.all(axis=0).any()))


def _none(found: Sequence[str], what: str) -> None:
    shown = "".join(f"\n  {violation}" for violation in found[:SHOWN])
    assert not found, f"{len(found)} {what}, such as{shown}"
