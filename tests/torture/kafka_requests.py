"""Encodes two requests of Kafka that librdkafka does not offer.

https://kafka.apache.org/protocol: ``DescribeQuorum`` (55), which returns the active controller, and
``AlterPartitionReassignments`` (45), which moves the replicas of a partition or changes their
order.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping, Sequence

DESCRIBE_QUORUM = 55
ALTER_PARTITION_REASSIGNMENTS = 45
CLIENT_ID = b"torture"
METADATA_TOPIC = "__cluster_metadata"
SECONDS = 10.0


class RequestError(RuntimeError):
    """A broker did not respond, or refused."""


def active_controller(address: str, seconds: float = SECONDS) -> int:
    """Return the number of the active controller, from a broker."""
    partitions = _array([struct.pack(">i", 0) + _TAGS])
    topics = _array([_text(METADATA_TOPIC) + partitions + _TAGS])
    answer = _request(address, DESCRIBE_QUORUM, topics, seconds)
    _check(answer.number(">h"))
    answer.length()  # one topic
    answer.text()
    answer.length()  # one partition
    answer.number(">i")
    _check(answer.number(">h"))
    return answer.number(">i")


def reassign(address: str, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
    """Assign replicas to each partition, the preferred leader first; raises ``RequestError``."""
    partitions = [
        struct.pack(">i", partition) + _array([struct.pack(">i", node) for node in nodes]) + _TAGS
        for partition, nodes in replicas.items()
    ]
    topics = _array([_text(topic) + _array(partitions) + _TAGS])
    body = struct.pack(">i", int(SECONDS * 1000)) + topics
    answer = _request(address, ALTER_PARTITION_REASSIGNMENTS, body)
    answer.number(">i")  # throttle time
    _check(answer.number(">h"), answer.text())
    for _ in range(answer.length()):
        answer.text()
        for _ in range(answer.length()):
            answer.number(">i")
            _check(answer.number(">h"), answer.text())
            answer.tags()
        answer.tags()


# ---- Encoding: flexible versions, with compact arrays and texts.

_TAGS = b"\0"


def _length(number: int) -> bytes:
    """Return Kafka's unsigned varint of the length plus one."""
    number, encoded = number + 1, bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _length(len(encoded)) + encoded


def _array(items: Sequence[bytes]) -> bytes:
    return _length(len(items)) + b"".join(items)


class _Answer:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, layout: str) -> int:
        (value,) = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return int(value)

    def length(self) -> int:
        """Return the length of an array or a text; -1 for none."""
        value = shift = 0
        while True:
            byte = self.number(">B")
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value - 1

    def text(self) -> str:
        size = max(0, self.length())
        self._at += size
        return self._data[self._at - size : self._at].decode()

    def tags(self) -> None:
        for _ in range(self.length() + 1):
            self.length()
            self._at += self.length() + 1


def _request(address: str, key: int, body: bytes, seconds: float = SECONDS) -> _Answer:
    """Send version 0 of a request with the header of flexible versions."""
    header = struct.pack(">hhih", key, 0, 1, len(CLIENT_ID)) + CLIENT_ID + _TAGS
    message = header + body + _TAGS
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), seconds) as connection:
            connection.settimeout(seconds)
            connection.sendall(struct.pack(">i", len(message)) + message)
            (size,) = struct.unpack(">i", _received(connection, 4))
            answer = _Answer(_received(connection, size))
    except OSError as error:
        raise RequestError(f"{address} does not answer: {error}") from error
    answer.number(">i")  # the correlation id
    answer.tags()
    return answer


def _received(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError("the connection was closed")
        data += more
    return data


def _check(code: int, message: str = "") -> None:
    if code:
        raise RequestError(f"error {code} {message}".strip())
