"""A step of a Quix Streams application, which adds the id of the original to each document.

The state is in its own directory, not in the transaction of the stream. So after a crash, records
that are read again are duplicates of themselves. The step recognises them because their original
has the same ``id``. The filter for Kafka (``firstseen worker``) does not have this problem.
"""

from __future__ import annotations

from typing import Any

from quixstreams import Application

from firstseen import Deduplicator, DuplicateOf


def step(document: dict[str, Any], seen: Deduplicator) -> dict[str, Any]:
    """Return a document with ``repeats``: the id of the document it repeats, or None."""
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
