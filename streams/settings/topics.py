"""The settings of the topics: what they are called."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

_TOPIC: Final = "^[a-zA-Z0-9._-]{0,249}$"
_TOPIC_EXPECTED: Final = {"expected": "a topic name: 1 to 249 of the characters a-z A-Z 0-9 . _ -"}

_ONE_TOPIC_EXPECTED: Final = {
    "expected": "one topic name, no list and no pattern: 1 to 249 of the characters a-z A-Z 0-9 . "
    "_ - (several topics: docs/decisions/several-raw-topics.md)"
}


class TopicSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names of the topics. An empty name of an internal one is filled in by ``Settings``."""

    raw: Annotated[
        str, Meta(pattern=_TOPIC, extra=_ONE_TOPIC_EXPECTED, description="Input: the documents.")
    ] = "raw-documents"
    unique: Annotated[
        str,
        Meta(
            pattern=_TOPIC,
            extra=_TOPIC_EXPECTED,
            description="Output: unique documents, unchanged.",
        ),
    ] = "unique"
    duplicates: Annotated[
        str,
        Meta(
            pattern=_TOPIC,
            extra=_TOPIC_EXPECTED,
            description="Output: duplicates, each naming its original.",
        ),
    ] = "duplicate-of"
    tagged: Annotated[
        str,
        Meta(
            pattern=_TOPIC,
            extra=_TOPIC_EXPECTED,
            description="Output with mode=tag: all documents, unchanged, with the verdict in "
            "headers.",
        ),
    ] = "tagged"
    dead_letters: Annotated[
        str,
        Meta(
            pattern=_TOPIC,
            extra=_TOPIC_EXPECTED,
            description="Output: records that cannot be read.",
        ),
    ] = "dlq.raw-documents"
    log: Annotated[
        str,
        Meta(
            pattern=_TOPIC,
            extra={**_TOPIC_EXPECTED, "default": "<application_id>.log"},
            description="Internal: the order of all documents, and their verdicts.",
        ),
    ] = ""
    reports: Annotated[
        str,
        Meta(
            pattern=_TOPIC,
            extra={**_TOPIC_EXPECTED, "default": "<application_id>.reports"},
            description="Internal: what the shards found, for the leader.",
        ),
    ] = ""
    changelog: Annotated[
        str,
        Meta(
            pattern=_TOPIC,
            extra={**_TOPIC_EXPECTED, "default": "<application_id>.changelog"},
            description="Internal: the entries and the progress of each shard.",
        ),
    ] = ""
