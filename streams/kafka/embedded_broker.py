"""A Kafka broker with nothing to install, for demonstrations and tests: real protocol, no disk.

``EmbeddedBroker`` starts librdkafka's mock cluster (``streams.kafka.mock_cluster``) in a process of
its own, so that a broker survives the workers that a test kills, and a worker the broker's aborts.
By hand::

    python -m streams.kafka.embedded_broker            # prints {"bootstrap_servers": "127.0.0.1:…"}

The process lists its address as one JSON line, then takes one JSON object a line on its standard
input, ``{"topic": "documents", "partitions": 8}``, and answers each with a line. It ends when its
standard input closes or its parent is gone.

What it is not, found in ``rdkafka_mock*.c`` and checked by running (librdkafka 2.16):

**Retention.** A partition keeps 5 MiB (5,242,880 bytes), counted as they travel: compressed, with
61 bytes for each record batch; one-byte records sent singly take 69 bytes each. Older batches are
dropped whole, at once, whoever has yet to read them: a consumer that falls behind gets
OFFSET_OUT_OF_RANGE, which ``auto.offset.reset`` turns into a silent gap.
``streams.kafka.document_sender`` waits for the worker there. Nothing is on disk, and nothing is
compacted: a changelog cannot be restored once it has passed 5 MiB.

**Size.** There is no ``message.max.bytes``; a request may be 100 MB. But if a batch fits beside
none of the earlier ones, they are all dropped *and the new batch cannot be read either* (the start
offset is set past it). Two batches of 2.7 MB lose both. A client's own limit of 1 MB a batch
(``batch.size``, ``message.max.bytes``) keeps clear of it: do not raise it.

**Topics.** Made by asking for their metadata, with four partitions and no error in between; or by
``EmbeddedBroker.create_topic``, with as many as wanted. Partitions cannot be added. The admin API
is missing (CreateTopics, DeleteTopics, DescribeConfigs, DescribeCluster, DeleteRecords): such calls
wait out their time limit. ListOffsets gives the first and the last; by time it finds nothing.

**Fetches.** One batch of each partition an answer, however small. A fetch that finds nothing is
held for the whole of ``fetch.wait.max.ms`` (500 by default) though records arrive meanwhile: set it
to 10 and a record arrives in 6 ms instead of 371.

**Groups.** Offsets are kept; Consumer.committed reads any group's. A group's first member joins at
once. Any later change (a member joins, leaves or restarts) takes ``session.timeout.ms`` − 1 s, even
if all members are back earlier: use 6,000 instead of the client's 45,000. No session timeout is
too short. Static membership is not honoured (the restarted member waits until its old self has
timed out). All members must name the same assignment strategy first, or the broker aborts. Once a
group has had members, offsets can be committed by members only.

**Transactions.** Accepted, and worth nothing: read_committed shows aborted and open ones, and
``init_transactions`` does not fence an earlier producer of the same ``transactional.id``.

**Time, security.** Timestamps of producers are kept. No TLS, SASL, quotas or log append time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Self

from streams.kafka.mock_cluster import MockCluster, MockClusterError

PARTITIONS_BY_DEFAULT = 4
"""Of a topic that a client made by asking for it."""

RETAINED_BYTES_PER_PARTITION = 5 * 1024 * 1024

_PARTITIONS_MAX = 1000
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_LINE_BYTES_MAX = 64 * 1024
_PARENT_CHECK_SECONDS = 1.0
_START_SECONDS_MAX = 15.0
_REPLY_SECONDS_MAX = 5.0
_STOP_SECONDS_MAX = 5.0


class EmbeddedBrokerError(RuntimeError):
    """The embedded broker did not start, has died, or refused a request."""


class EmbeddedBroker:
    """The embedded broker as a context manager: it runs from ``start`` to ``stop``.

    Args:
        first_join_delay_ms: How long a consumer group waits for more members when its first one
            joins. With more than one member, a second saves ``session.timeout.ms`` − 1 s.
    """

    def __init__(self, *, first_join_delay_ms: int = 0) -> None:
        self._first_join_delay_ms = first_join_delay_ms
        self._process: subprocess.Popen[bytes] | None = None
        self._bootstrap_servers = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """The address that clients connect to, ``127.0.0.1:port``."""
        if not self._bootstrap_servers:
            raise EmbeddedBrokerError("the embedded broker has not been started")
        return self._bootstrap_servers

    @property
    def pid(self) -> int:
        """The process id of the broker."""
        return self._running().pid

    def is_running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process and wait until it has said its address.

        Raises:
            EmbeddedBrokerError: It did not within 15 seconds, or runs already.
        """
        if self._process is not None:
            raise EmbeddedBrokerError("the embedded broker is already running")
        # A session of its own: Ctrl-C must reach the workers while their broker still answers.
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [
                sys.executable,
                "-m",
                "streams.kafka.embedded_broker",
                f"--first-join-delay-ms={self._first_join_delay_ms}",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        try:
            self._bootstrap_servers = str(self._reply(_START_SECONDS_MAX)["bootstrap_servers"])
        except BaseException:
            self.stop()
            raise

    def create_topic(self, name: str, partitions: int = PARTITIONS_BY_DEFAULT) -> None:
        """Make a topic with a number of partitions.

        Raises:
            EmbeddedBrokerError: The name or the number is invalid, the topic exists, or the broker
                is dead.
        """
        process = self._running()
        assert process.stdin is not None
        request = json.dumps({"topic": name, "partitions": partitions}) + "\n"
        try:
            process.stdin.write(request.encode())
        except BrokenPipeError:
            raise EmbeddedBrokerError(_how_it_ended(process)) from None
        self._reply(_REPLY_SECONDS_MAX)

    def stop(self) -> None:
        """End the process; no harm if it has ended or never ran."""
        process, self._process = self._process, None
        self._bootstrap_servers = ""
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(_STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_STOP_SECONDS_MAX)
        process.stdout.close()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise EmbeddedBrokerError("the embedded broker has not been started")
        return self._process

    def _reply(self, seconds_max: float) -> Mapping[str, object]:
        process = self._running()
        assert process.stdout is not None
        deadline = time.monotonic() + seconds_max
        line = b""
        while not line.endswith(b"\n"):
            remaining = deadline - time.monotonic()
            ready, _, _ = select.select([process.stdout], [], [], max(remaining, 0.0))
            if not ready:
                raise EmbeddedBrokerError(f"the embedded broker was silent for {seconds_max} s")
            # Exactly one line is due for each request, so nothing after it can be lost here.
            chunk = process.stdout.read(_LINE_BYTES_MAX)
            if not chunk:
                raise EmbeddedBrokerError(_how_it_ended(process))
            line += chunk
        reply = json.loads(line)
        if "error" in reply:
            raise EmbeddedBrokerError(reply["error"])
        return dict(reply)


def _how_it_ended(process: subprocess.Popen[bytes]) -> str:
    try:
        code = process.wait(_STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        return "the embedded broker closed its output but is still running"
    return f"the embedded broker has died with code {code}: see its messages on standard error"


def _topic_wanted(line: bytes) -> tuple[str, int]:
    """The topic name and the number of partitions of a request; raises ValueError."""
    try:
        request = json.loads(line)
        name, partitions = request["topic"], request["partitions"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f'not {{"topic": …, "partitions": …}}: {error!r}') from None
    if not isinstance(name, str) or not _TOPIC_NAME.fullmatch(name):
        raise ValueError(f"topic name {name!r}: 1 to 249 letters, digits, '.', '_' or '-'")
    # True is an int to Python.
    if type(partitions) is not int or not 1 <= partitions <= _PARTITIONS_MAX:
        raise ValueError(f"topic {name!r}: {partitions!r} partitions, not 1 to {_PARTITIONS_MAX}")
    return name, partitions


def _answer(cluster: MockCluster, line: bytes) -> dict[str, object]:
    try:
        name, partitions = _topic_wanted(line)
        cluster.create_topic(name, partitions)
    except (ValueError, MockClusterError) as error:
        return {"error": str(error)}
    return {"topic": name, "partitions": partitions}


def _say(message: Mapping[str, object]) -> None:
    print(json.dumps(message), flush=True)  # noqa: T201 - the line protocol


def _serve(cluster: MockCluster) -> None:
    """Answer requests until standard input closes or the parent process is gone."""
    parent = os.getppid()
    requests = sys.stdin.fileno()
    pending = b""
    # A child that the parent forked may hold the pipe open after it: so look at the parent too.
    while os.getppid() == parent:
        ready, _, _ = select.select([requests], [], [], _PARENT_CHECK_SECONDS)
        if not ready:
            continue
        chunk = os.read(requests, _LINE_BYTES_MAX)
        if not chunk:
            return
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            _say(_answer(cluster, line))
        if len(pending) > _LINE_BYTES_MAX:
            _say({"error": f"a request of more than {_LINE_BYTES_MAX} bytes"})
            return


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the broker in this process, as the module's docstring says; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m streams.kafka.embedded_broker")
    parser.add_argument("--first-join-delay-ms", type=int, default=0, metavar="MILLISECONDS")
    options = parser.parse_args(arguments)
    try:
        cluster = MockCluster(first_join_delay_ms=options.first_join_delay_ms)
        _say({"bootstrap_servers": cluster.bootstrap_servers})
        _serve(cluster)
    except MockClusterError as error:
        _say({"error": str(error)})
        return 1
    except (KeyboardInterrupt, BrokenPipeError):
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
