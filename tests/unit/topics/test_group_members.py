"""Who is in a group, and what each has of a topic, as Kafka encodes it."""

from __future__ import annotations

import struct

import pytest

from streams.topics.consumer_group import assigned_partitions


def encoded(topics: dict[str, list[int]]) -> bytes:
    """An assignment of version 1, with user data behind it."""
    parts = [struct.pack(">hi", 1, len(topics))]
    for name, partitions in topics.items():
        parts.append(struct.pack(">h", len(name)) + name.encode())
        parts.append(struct.pack(f">i{len(partitions)}i", len(partitions), *partitions))
    return b"".join(parts) + struct.pack(">i", 0)


def test_of_one_topic_alone() -> None:
    """Given several topics in an assignment, then the partitions are those of the one."""
    raw = encoded({"others": [7, 8], "raw": [0, 3], "more": []})
    assert assigned_partitions(raw, "raw") == {0, 3}
    assert assigned_partitions(raw, "more") == set()


def test_a_member_without_any() -> None:
    """Given no assignment, then there are no partitions."""
    assert assigned_partitions(b"", "raw") == set()


def test_a_cut_assignment() -> None:
    """Given bytes that end too early, then that is an error, and no guess."""
    with pytest.raises(struct.error):
        assigned_partitions(encoded({"raw": [0, 1]})[:12], "raw")
