"""The plain Faust recipe: an agent, a table of blocks, ``simhash`` and jieba, exactly once.

The table is in memory with its changelog in Kafka, which is Faust's default. A table has the
partitions of its stream, so a copy on another partition is missed.
"""

from __future__ import annotations

import faust
from faust.types import StreamT

from benchmarks.peers import word_simhash
from benchmarks.peers.stream import Stream, stream_of_arguments


def application(stream: Stream) -> faust.App:
    app = faust.App(
        stream.name,
        broker=f"kafka://{stream.brokers}",
        datadir=str(stream.directory),
        processing_guarantee="exactly_once",
        topic_partitions=1,
        web_enabled=False,
    )
    raw = app.topic(stream.raw, value_serializer="json")
    unique = app.topic(stream.unique, value_serializer="json")
    duplicates = app.topic(stream.duplicates, value_serializer="json")
    seen = app.Table("seen", default=list)

    @app.agent(raw)
    async def deduplicate(documents: StreamT[dict[str, str]]) -> None:
        async for document in documents:
            value = word_simhash.fingerprint(document["text"])
            names = word_simhash.blocks(value)
            candidates = [entry for name in names for entry in seen[name]]
            original = word_simhash.nearest(value, candidates)
            if original is not None:
                record = {"id": document["id"], "original": original}
                await duplicates.send(key=document["id"], value=record)
                continue
            for name in names:
                seen[name] = [*seen[name], (value, document["id"])]
            await unique.send(key=document["id"], value=document)

    return app


if __name__ == "__main__":
    word_simhash.load()
    app = application(stream_of_arguments())
    faust.Worker(app, loglevel="WARNING").execute_from_commandline()
