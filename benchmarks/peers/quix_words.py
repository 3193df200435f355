"""Quix Streams with ``simhash`` and jieba: the plain recipe, exactly once, its state in RocksDB."""

from __future__ import annotations

from quixstreams import State

from benchmarks.peers import quix_stream, word_simhash
from benchmarks.peers.stream import stream_of_arguments


def original_of(document: quix_stream.Document, state: State) -> str | None:
    """Return what a document repeats; remembers it if that is nothing."""
    value = word_simhash.fingerprint(document["text"])
    names = word_simhash.blocks(value)
    entries = [state.get(name, []) for name in names]
    original = word_simhash.nearest(value, [each for bucket in entries for each in bucket])
    if original is None:
        for name, bucket in zip(names, entries, strict=True):
            state.set(name, [*bucket, (value, document["id"])])
    return original


if __name__ == "__main__":
    word_simhash.load()
    quix_stream.run(stream_of_arguments(), original_of)
