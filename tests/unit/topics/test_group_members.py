"""The members of a group, and their partitions of a topic, in Kafka's encoding."""

from __future__ import annotations

import struct

import pytest

from streams.topics.consumer_group import assigned_partitions


def encoded(topics: dict[str, list[int]]) -> bytes:
    """Return an assignment of version 1, followed by user data."""
    parts = [struct.pack(">hi", 1, len(topics))]
    for name, partitions in topics.items():
        parts.append(struct.pack(">h", len(name)) + name.encode())
        parts.append(struct.pack(f">i{len(partitions)}i", len(partitions), *partitions))
    return b"".join(parts) + struct.pack(">i", 0)


def test_partitions_are_those_of_the_topic_alone() -> None:
    raw = encoded({"others": [7, 8], "raw": [0, 3], "more": []})
    assert assigned_partitions(raw, "raw") == {0, 3}
    assert assigned_partitions(raw, "more") == set()


def test_member_without_an_assignment_has_no_partitions() -> None:
    assert assigned_partitions(b"", "raw") == set()


def test_cut_assignment_is_an_error() -> None:
    with pytest.raises(struct.error):
        assigned_partitions(encoded({"raw": [0, 1]})[:12], "raw")
