"""The members of a group, and their partitions of a topic, in Kafka's encoding."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import struct
import subprocess
import time
from unittest.mock import create_autospec

import pytest
from confluent_kafka import KafkaException

from streams.topics import group_description
from streams.topics.consumer_group import assigned_partitions
from streams.topics.group_description import described_group


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
    assert assigned_partitions({"others": [1]}, "raw") == set()


def test_a_child_without_an_answer_is_replaced() -> None:
    """As when librdkafka ends its process."""
    config = {"bootstrap.servers": "127.0.0.1:9", "logger": None}
    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        described_group(config, "group", 0.5)
    first = group_description._CHILD._process
    assert first is not None
    assert first.poll() is None, "an error of the request does not end it"
    first.kill()
    first.wait()
    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        described_group(config, "group", 0.5)
    second = group_description._CHILD._process
    assert second is not None
    assert second.pid != first.pid
    second.send_signal(signal.SIGSTOP)
    with pytest.raises(KafkaException, match="no broker describes the group in time"):
        group_description._CHILD.ask("{}", 0.1)
    assert second.poll() is not None


def test_cut_assignment_is_an_error() -> None:
    with pytest.raises(struct.error):
        assigned_partitions(encoded({"raw": [0, 1]})[:12], "raw")


def test_a_child_is_heard_by_a_worker_with_more_than_a_thousand_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    high = 1100
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, high + 1), hard))
    reading, writing = os.pipe()
    with (
        os.fdopen(fcntl.fcntl(reading, fcntl.F_DUPFD_CLOEXEC, high), "rb") as output,
        os.fdopen(writing, "wb", 0) as child,
        os.fdopen(reading, "rb"),
    ):
        process = create_autospec(subprocess.Popen, instance=True, stdout=output)
        child.write(b"{}\n")
        assert group_description._line(process, time.monotonic() + 5.0) == b"{}\n"
        with pytest.raises(TimeoutError):
            group_description._line(process, time.monotonic() + 0.01)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
