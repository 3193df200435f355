"""What both Quix Streams programs share: topics, exactly once, and one state for all documents.

Quix Streams keeps a state for each key of the input. Documents have keys of their own, so the input
is given one key for all; the outputs get theirs back from the document. It saves the program the
repartition topic that ``group_by`` would take. A state belongs to a partition, so a copy on another
one is missed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from quixstreams import Application, State
from quixstreams.models import BytesDeserializer, Topic

from benchmarks.peers.stream import Stream

Document = dict[str, str]

_ALL: Final = b"all"
_COMMIT_SECONDS: Final = 0.5


class _OneKey(BytesDeserializer):  # type: ignore[misc]
    def __call__(self, value: bytes, ctx: object) -> bytes:  # noqa: ARG002 - what it is called with
        return _ALL


def run(stream: Stream, original_of: Callable[[Document, State], str | None]) -> None:
    """Run until the process is ended.

    ``original_of`` says which document one repeats, None for a new one, which it remembers in the
    state.
    """
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
