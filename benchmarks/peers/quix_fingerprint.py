"""Quix Streams with the fingerprint of Firstseen's profile ``wide``, one document at a time.

Near is what it is for Firstseen: the fingerprints are within the distance, and the sketches agree.
The state has the buckets of the fingerprint as keys: each holds the ids of the documents in it, and
each id has its fingerprint and sketch. All are bytes, which Quix Streams stores as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quixstreams import State

from benchmarks.peers import quix_stream
from benchmarks.peers.stream import stream_of_arguments
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import profile_named

_BETWEEN: Final = b" "


def remembering() -> Callable[[quix_stream.Document, State], str | None]:
    """Return what says which document one repeats, and remembers those that repeat none."""
    fingerprinter = Fingerprinter(profile_named("wide"))
    scheme, verifier = fingerprinter.scheme, fingerprinter.verifier
    assert verifier is not None
    size = scheme.bits // 8

    def original_of(document: quix_stream.Document, state: State) -> str | None:
        fingerprinted = fingerprinter.fingerprint(document["text"])
        if fingerprinted.undecidable is not None:
            return None
        buckets = scheme.buckets(fingerprinted.fingerprint)
        stored = [state.get_bytes(bucket, b"") for bucket in buckets]
        value, near = int.from_bytes(fingerprinted.fingerprint, "big"), list[tuple[int, bytes]]()
        for name in {name for names in stored for name in names.split()}:
            entry = state.get_bytes(_entry_key(name))
            distance = (value ^ int.from_bytes(entry[:size], "big")).bit_count()
            if distance > scheme.distance:
                continue
            if verifier.similarity(distance, fingerprinted.sketch, entry[size:]) is not None:
                near.append((distance, name))
        if near:
            return min(near)[1].decode()
        name = document["id"].encode()
        state.set_bytes(_entry_key(name), fingerprinted.fingerprint + fingerprinted.sketch)
        for bucket, names in zip(buckets, stored, strict=True):
            state.set_bytes(bucket, names + _BETWEEN + name)
        return None

    return original_of


def _entry_key(name: bytes) -> bytes:
    return b"entry " + name


if __name__ == "__main__":
    quix_stream.run(stream_of_arguments(), remembering())
