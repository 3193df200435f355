"""The members of a group that has the protocol ``consumer`` (KIP-848).

``list_groups`` does not know such groups, and the newer ``describe_consumer_groups`` ends its
process on a time-out, or if a broker goes down and comes back during the request (librdkafka 2.16,
the assertion in ``rd_kafka_enq_once_del_source_return``). So a child process makes these requests.
If it ends, the request counts as one without an answer, and the next one starts another child::

    python -m streams.topics.group_description   # reads requests, one JSON object per line

The child ends with its parent, because its standard input ends, and when it has nothing to do.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException

from streams.kafka.clients import AdminClient

_START_SECONDS: Final = 10.0  # how long the child may take to start, beyond the time of the request
_READ_BYTES: Final = 1 << 16
_IDLE_SECONDS: Final = 120  # the child ends after this time without a request


class ListedMember(NamedTuple):
    """``assignment`` is in Kafka's encoding (b"" during a rebalance), or partitions by topic."""

    name: str
    id: str  # new with each start, also of a static member
    host: str
    assignment: bytes | Mapping[str, Iterable[int]]


class ListedGroup(NamedTuple):
    is_stable: bool
    members: list[ListedMember]


def described_group(config: Mapping[str, Any], group: str, seconds: float) -> ListedGroup:
    """Ask once for a group's members; none for an unknown group. Raises ``KafkaException``.

    ``config`` is that of an admin client. Blocking; for any thread.
    """
    # Callbacks and loggers stay in this process.
    plain = {name: each for name, each in config.items() if not callable(each) and name != "logger"}
    request = json.dumps({"config": plain, "group": group, "seconds": seconds})
    reply = json.loads(_CHILD.ask(request, seconds + _START_SECONDS))
    if "code" in reply:
        raise KafkaException(KafkaError(reply["code"], reply["error"]))
    return ListedGroup(reply["is_stable"], [ListedMember(*each) for each in reply["members"]])


class _Child:
    def __init__(self) -> None:
        self._lock = threading.Lock()  # one request at a time
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: str, seconds: float) -> bytes:
        with self._lock:
            process = self._running()
            try:
                assert process.stdin is not None
                process.stdin.write(request.encode() + b"\n")
                return _line(process, time.monotonic() + seconds)
            except (OSError, TimeoutError) as error:
                self.end()
                raise KafkaException(
                    KafkaError(
                        KafkaError._TIMED_OUT,  # noqa: SLF001 - a public code of librdkafka
                        f"no broker describes the group in time ({error})",
                    )
                ) from error

    def end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.end()
            self._process = subprocess.Popen(  # noqa: S603 - no shell, and no argument from outside
                [sys.executable, "-P", "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # librdkafka writes there why it ends the process
                bufsize=0,
                start_new_session=True,  # Ctrl-C in a terminal is for the parent
            )
        return self._process


def _line(process: subprocess.Popen[bytes], deadline: float) -> bytes:
    """Return the next line of a child; raise ``TimeoutError``, or ``OSError`` if it has ended."""
    assert process.stdout is not None
    ready = select.poll()  # ``select`` takes no number above 1023, and a worker has many files
    ready.register(process.stdout, select.POLLIN)
    line = b""
    while not line.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not ready.poll(left * 1000):
            raise TimeoutError("no answer")
        if not (read := os.read(process.stdout.fileno(), _READ_BYTES)):
            raise BrokenPipeError("librdkafka has ended its process")
        line += read
    return line


_CHILD: Final = _Child()
atexit.register(_CHILD.end)


# ---- the child


def main() -> None:
    """Answer requests until standard input ends."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    clients: dict[str, AdminClient] = {}
    signal.alarm(_IDLE_SECONDS)
    for line in sys.stdin:
        signal.alarm(_IDLE_SECONDS)
        request = json.loads(line)
        key = json.dumps(request["config"])
        if key not in clients:
            clients[key] = AdminClient({**request["config"], "log_level": 0})
        try:
            answer = _described(clients[key], request["group"], request["seconds"])
        except KafkaException as failure:
            clients.clear()  # this one may ask the former coordinator of the group for ever
            error: KafkaError = failure.args[0]
            answer = {"code": error.code(), "error": error.str()}
            if error.code() == KafkaError.GROUP_ID_NOT_FOUND:
                answer = {"is_stable": False, "members": []}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _described(client: AdminClient, group: str, seconds: float) -> dict[str, Any]:
    futures = client.describe_consumer_groups([group], request_timeout=seconds)
    found = futures[group].result()
    members = []
    for each in found.members:
        partitions: dict[str, list[int]] = {}
        for place in each.assignment.topic_partitions:
            partitions.setdefault(place.topic, []).append(place.partition)
        members.append((each.client_id, each.member_id, each.host, partitions))
    return {"is_stable": found.state == ConsumerGroupState.STABLE, "members": members}


if __name__ == "__main__":
    main()
