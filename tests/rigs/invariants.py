"""The invariants of the outputs, checked by brute force on plain data.

Whatever made the outputs (a file, a stream, a cluster that was killed), it comes down to: which
documents there were, which of them are unique, and which repeat which. Nothing of the product
takes part in the checks but what says what "near" is, the block scheme and the confirmation;
distances are counted here, bit by bit, over all pairs.

A document is named by its source position as a string. The functions raise `AssertionError` with
the first few violations, and return how many things they looked at, so that a caller can see that
there was something to check.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.text.fingerprinter import Fingerprinted, Fingerprinter
from simhash_core.text.verification import Verifier

SHOWN = 5
BAND_KEY_BYTES = 4
ROWS_A_STEP = 512  # of all pairs: bounds the memory of one step


class Nearness(NamedTuple):
    """What "near" is in an index."""

    scheme: BlockScheme
    verifier: Verifier | None = None
    window_ms: int | None = None

    @classmethod
    def of(cls, fingerprinter: Fingerprinter) -> Nearness:
        window_ms = fingerprinter.profile.window
        return cls(fingerprinter.scheme, fingerprinter.verifier, window_ms)

    def may_meet(self, a: Known, b: Known) -> bool:
        """Whether two documents are of one scope, and their times within the window."""
        if a.scope != b.scope:
            return False
        return self.window_ms is None or abs(a.time_ms - b.time_ms) <= self.window_ms

    def confirms(self, distance: int, a: Known, b: Known) -> bool:
        """Whether two documents at this distance are near, if it is within the threshold."""
        if not self.may_meet(a, b):
            return False
        if self.verifier is None or a.content_digest == b.content_digest:
            return True
        return self.verifier.similarity(distance, a.sketch, b.sketch) is not None

    def share_a_bucket(self, a: Known, b: Known) -> bool:
        """Whether two documents with fingerprints share a block or a band."""
        prints = _bits([a.fingerprint or b"", b.fingerprint or b""], self.scheme.bits)
        if _share_a_block(prints[0], prints[1], self.scheme):
            return True
        size = self.scheme.bands * BAND_KEY_BYTES
        if not size or not a.sketch or not b.sketch:
            return False
        keys = [np.frombuffer(each.sketch[-size:], np.uint32) for each in (a, b)]
        return bool(((keys[0] == keys[1]) & (keys[0] != 0)).any())


class Known(NamedTuple):
    """A document: without a fingerprint it is undecidable, and equals by its content alone."""

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
    """A duplicate as its record tells it: both source positions, and the distance."""

    source: str
    original: str
    distance: int


def check_separation(uniques: Mapping[str, Known], near: Nearness) -> int:
    """No two uniques are near and share a bucket; no two undecidable ones are equal.

    Returns the number of pairs within the distance that share no bucket: they may both be unique,
    and where the scheme is guaranteed there are none.
    """
    scheme = near.scheme
    sources = [source for source, known in uniques.items() if known.fingerprint]
    bits = _bits([uniques[source].fingerprint or b"" for source in sources], scheme.bits)
    found, missed = [], 0
    for start in range(0, len(sources), ROWS_A_STEP):
        part = bits[start : start + ROWS_A_STEP]
        distances = _distances(part, bits)
        for row, column in zip(*np.nonzero(distances <= scheme.distance), strict=True):
            if start + row >= column:
                continue  # each pair once, and none with itself
            a, b = uniques[sources[start + row]], uniques[sources[column]]
            if not near.confirms(int(distances[row, column]), a, b):
                continue
            if near.share_a_bucket(a, b):
                pair = f"{sources[start + row]} and {sources[column]}"
                found.append(f"{pair}: {distances[row, column]} bits apart")
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


def check_grounding(
    documents: Mapping[str, Known],
    uniques: Collection[str],
    duplicates: Sequence[Repeat],
    near: Nearness,
) -> int:
    """Every duplicate names a unique that is near, at the distance that it says.

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
    """Every arrival is in exactly one output, once, and nothing else is.

    Returns the number of arrivals.
    """
    expected = Counter(iter(arrivals))  # iter: of a mapping, Counter would take the values
    put_out = Counter(source for output in outputs for source in output)
    found = [f"{source} arrived twice" for source, count in expected.items() if count > 1]
    found += [f"{source} is lost" for source in expected.keys() - put_out.keys()]
    found += [f"{source} never arrived" for source in put_out.keys() - expected.keys()]
    found += [f"{source} is put out {n} times" for source, n in put_out.items() if n > 1]
    _none(found, "records are not in exactly one output")
    return len(expected)


def _ungrounded(
    repeat: Repeat, documents: Mapping[str, Known], uniques: Collection[str], near: Nearness
) -> str | None:
    """Say what is wrong with a duplicate, None if nothing is."""
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
    """Say why two fingerprints cannot have been found near at the recorded distance."""
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
    """Return one row of zeros and ones for each fingerprint."""
    packed = np.frombuffer(b"".join(fingerprints), dtype=np.uint8)
    return np.unpackbits(packed.reshape(len(fingerprints), bits // 8), axis=1)


def _distances(part: NDArray[np.uint8], whole: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the distance of each row of `part` to each of `whole`: ones in one, not in both."""
    a, b = part.astype(np.float32), whole.astype(np.float32)
    both = a @ b.T
    distances: NDArray[np.int64] = np.rint(a.sum(axis=1)[:, None] + b.sum(axis=1) - 2 * both)
    return distances.astype(np.int64)


def _share_a_block(a: NDArray[np.uint8], b: NDArray[np.uint8], scheme: BlockScheme) -> bool:
    if not scheme.blocks:
        return False
    covered = scheme.blocks * scheme.block_bits
    equal = (a[:covered] == b[:covered]).reshape(scheme.blocks, scheme.block_bits)
    return bool(equal.all(axis=1).any() or (scheme.cuts > 1 and equal.all(axis=0).any()))


def _none(found: Sequence[str], what: str) -> None:
    shown = "".join(f"\n  {violation}" for violation in found[:SHOWN])
    assert not found, f"{len(found)} {what}, such as{shown}"
