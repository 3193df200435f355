"""A step of a Quix Streams application: a field that says which document is repeated.

What it has seen is in a directory of its own, not in the transaction of the stream: after a crash
records that are read again are repeats of themselves. ``id`` tells them: their original is the very
same id. The filter for Kafka (``firstseen worker``) has no such gap.
"""

from __future__ import annotations

from typing import Any

from quixstreams import Application

from firstseen import Deduplicator, DuplicateOf


def step(document: dict[str, Any], seen: Deduplicator) -> dict[str, Any]:
    """Return a document with ``repeats``: the id of the one that it repeats, or None."""
    verdict = seen.add(document["text"], id=document["id"])
    original = verdict.original_id if isinstance(verdict, DuplicateOf) else None
    return {**document, "repeats": None if original == document["id"] else original}


def main() -> None:
    """Read documents from ``articles``, write them to ``articles-checked``."""
    application = Application(broker_address="127.0.0.1:9092", consumer_group="checked")
    incoming = application.topic("articles", value_deserializer="json")
    outgoing = application.topic("articles-checked", value_serializer="json")
    with Deduplicator(state="seen") as seen:
        frame = application.dataframe(incoming).apply(lambda document: step(document, seen))
        frame.to_topic(outgoing)
        application.run()


if __name__ == "__main__":
    main()
