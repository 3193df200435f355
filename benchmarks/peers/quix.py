"""Quix Streams, exactly once, with one state in RocksDB for all documents.

``python -m benchmarks.peers.quix BROKERS NAME DIRECTORY HOW``: HOW is ``fingerprint``, with the
fingerprint of Firstseen's profile ``wide`` and its bands as keys of the state; or ``words``, the
plain recipe of ``word_simhash``.

Quix Streams keeps a state for each key of the input. Documents have different keys, so the program
replaces them with one key for all, which avoids a repartition topic; outputs get their keys back
from the document. A state belongs to a partition, so a copy on another partition is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from quixstreams import Application, State
from quixstreams.models import BytesDeserializer, Topic

from benchmarks.peers import word_simhash
from benchmarks.peers.stream import Stream, stream_of_arguments
from simhash_core.document_columns import BytesColumn
from simhash_core.index.prints import band_keys
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import profile_named

Document = dict[str, str]
OriginalOf = Callable[[Document, State], str | None]
"""Returns which document a text repeats; if it repeats none, keeps it in the state."""

_ALL: Final = b"all"
_BETWEEN: Final = b" "
_COMMIT_SECONDS: Final = 0.5


class _OneKey(BytesDeserializer):  # type: ignore[misc]
    def __call__(self, value: bytes, ctx: object) -> bytes:  # noqa: ARG002 - what it is called with
        return _ALL


def by_fingerprint() -> OriginalOf:
    """Documents are near as for Firstseen: by fingerprint and sketch, which are in the state."""
    fingerprinter = Fingerprinter(profile_named("wide"))
    scheme, verifier = fingerprinter.scheme, fingerprinter.verifier
    assert verifier is not None
    size = scheme.bits // 8

    def original_of(document: Document, state: State) -> str | None:
        fingerprinted = fingerprinter.fingerprint(document["text"])
        if fingerprinted.undecidable is not None:
            return None
        sketch = fingerprinted.sketch
        (of_bands,) = band_keys(BytesColumn.of([sketch]), scheme.sketch_bands).tolist()
        buckets = [b"%d %d" % (band, key) for band, key in enumerate(of_bands)]
        stored = [state.get_bytes(bucket, b"") for bucket in buckets]
        value, near = int.from_bytes(fingerprinted.fingerprint, "big"), list[tuple[int, bytes]]()
        for name in {name for names in stored for name in names.split()}:
            entry = state.get_bytes(b"entry " + name)
            distance = (value ^ int.from_bytes(entry[:size], "big")).bit_count()
            if distance > scheme.distance:
                continue
            if verifier.similarity(distance, sketch, entry[size:]) is not None:
                near.append((distance, name))
        if near:
            return min(near)[1].decode()
        name = document["id"].encode()
        state.set_bytes(b"entry " + name, fingerprinted.fingerprint + sketch)
        for bucket, names in zip(buckets, stored, strict=True):
            state.set_bytes(bucket, names + _BETWEEN + name)
        return None

    return original_of


def by_words() -> OriginalOf:
    word_simhash.load()

    def original_of(document: Document, state: State) -> str | None:
        value = word_simhash.fingerprint(document["text"])
        names = word_simhash.blocks(value)
        entries = [state.get(name, []) for name in names]
        original = word_simhash.nearest(value, [each for bucket in entries for each in bucket])
        if original is None:
            for name, bucket in zip(names, entries, strict=True):
                state.set(name, [*bucket, (value, document["id"])])
        return original

    return original_of


def main(stream: Stream, original_of: OriginalOf) -> None:
    app = Application(
        stream.brokers,
        consumer_group=stream.name,
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_interval=_COMMIT_SECONDS,
        state_dir=stream.directory,
        loglevel="WARNING",
    )
    unique, duplicates = app.topic(stream.unique), app.topic(stream.duplicates)

    def judge(document: Document, state: State) -> Document:
        original = original_of(document, state)
        return document if original is None else {"id": document["id"], "original": original}

    def output(record: Document, *_: Any) -> Topic:  # noqa: ANN401 - key, time and headers
        return duplicates if "original" in record else unique

    documents = app.dataframe(app.topic(stream.raw, key_deserializer=_OneKey()))
    documents.apply(judge, stateful=True).to_topic(output, key=lambda record: record["id"].encode())
    app.run()


if __name__ == "__main__":
    HOWS: Final = {"fingerprint": by_fingerprint, "words": by_words}
    main(stream_of_arguments(), HOWS[sys.argv[4]]())
