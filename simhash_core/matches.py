"""What a look-up finds: the nearest unique document, its neighbours, the answer to a question."""

from __future__ import annotations

import msgspec

from simhash_core.documents import SourcePosition


class Match(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The nearest unique document that a document of a packet was found near to.

    ``row``: the document's index in the packet. ``distance``: bits. ``sequence``: the sequence
    number of the original, and what a duplicate's record says of it. ``block``: the first that they
    share, None for undecidable texts. ``exact``: equal content. ``similarity``: of the sketches,
    None for equal content and where the index confirms nothing.
    """

    row: int
    distance: int
    sequence: int
    original_id: str
    source: SourcePosition
    event_time_ms: int
    block: int | None
    exact: bool
    similarity: float | None

    def is_nearer(self, other: Match | None) -> bool:
        """Return whether this is the one to name: nearer, or as near and earlier in the log."""
        return other is None or (self.distance, self.sequence) < (other.distance, other.sequence)


class Neighbour(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A document of the index beside one that is asked about, near or not.

    ``similarity``: of the sketches, None where the index confirms nothing and for equal content.
    """

    match: Match
    near: bool


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """What an index, or a part of it, says of a document that is asked about.

    ``neighbours``: the nearest documents that share a bucket, nearest first. ``candidates``: how
    many share one. ``fullest_bucket``: the documents of its fullest bucket.
    """

    match: Match | None
    neighbours: list[Neighbour]
    candidates: int
    fullest_bucket: int
