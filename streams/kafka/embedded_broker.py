"""A Kafka broker for demonstrations and tests: real protocol, no disk, nothing to install.

``EmbeddedBroker`` starts librdkafka's mock cluster (``MockCluster``) in its own process, so that a
broker survives killed workers, and a worker survives aborts of the broker. To start it by hand::

    python -m streams.kafka.embedded_broker            # prints {"bootstrap_servers": "127.0.0.1:…"}

The process prints its address as one JSON line, then reads one JSON object per line from standard
input, ``{"topic": "documents", "partitions": 8}``, and prints one line for each. It ends when its
standard input closes or its parent ends.

Its limits (librdkafka 2.16):

- A partition keeps 5 MiB as sent. Older batches are dropped even if they were not read, which
  ``auto.offset.reset`` turns into a silent gap (``streams.kafka.document_sender`` therefore waits
  for the worker). Nothing is on disk or compacted: a changelog above 5 MiB cannot be restored.
- If a batch is so large that all earlier ones are dropped, *the batch itself cannot be read
  either*. A client's own limit of 1 MB per batch avoids this: do not raise it.
- A metadata request creates a topic with four partitions, without an error. Partitions cannot be
  added. The admin API is missing, so calls time out. Offsets cannot be found by time.
- A fetch without records is held for all of ``fetch.wait.max.ms`` (500 by default), even if records
  arrive meanwhile.
- A group's first member joins at once; any later change takes ``session.timeout.ms`` − 1 s: use
  6,000 instead of the client's 45,000. Static membership is ignored. All members must name the same
  assignment strategy first, or the broker aborts. Only members can commit a group's offsets.
- Transactions have no effect: read_committed shows aborted and open ones, and nothing is fenced.
- No TLS, SASL, quotas or log append time.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import select
import subprocess
import sys
from collections.abc import Mapping
from typing import Self

from confluent_kafka import cimpl

# ---- librdkafka's mock cluster, in the library that confluent-kafka has loaded already.
#
# A confluent-kafka client can switch it on (``test.mock.num.brokers``), but then every topic has
# four partitions and the first member of each group waits three seconds. The C functions that set
# both are public (``rdkafka_mock.h``). A handle on confluent-kafka's extension module also finds
# the symbols of libraries that the module depends on. The cluster exists until the process ends.

_RD_KAFKA_PRODUCER = 0
_RD_KAFKA_CONF_OK = 0
_RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS = 36
_ERROR_TEXT_BYTES = 512

_SETTINGS = {
    "test.mock.num.brokers": "1",
    # At level 5 the library reports that the mock cluster is on.
    "log_level": "3",
}


class EmbeddedBrokerError(RuntimeError):
    """The embedded broker did not start, has died, or refused a request."""


class MockCluster:
    """One mock broker inside this process; methods raise ``EmbeddedBrokerError``."""

    def __init__(self) -> None:
        self._library = _library()
        # The mock cluster needs a client, which is not used otherwise.
        client = self._new_client()
        self._cluster = self._library.rd_kafka_handle_mock_cluster(client)
        if not self._cluster:
            raise EmbeddedBrokerError("librdkafka started a client without its mock cluster")
        self._library.rd_kafka_mock_group_initial_rebalance_delay_ms(self._cluster, 0)

    @property
    def bootstrap_servers(self) -> str:
        address: bytes = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster)
        return address.decode()

    def create_topic(self, name: str, partitions: int) -> None:
        error: int = self._library.rd_kafka_mock_topic_create(
            self._cluster, name.encode(), partitions, 1
        )
        if error == _RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS:
            raise EmbeddedBrokerError(
                f"topic {name!r} exists already: create it before any client uses it"
            )
        if error:
            raise EmbeddedBrokerError(
                f"topic {name!r} with {partitions} partitions was refused: error {error}"
            )

    def _new_client(self) -> int:
        library = self._library
        error_text = ctypes.create_string_buffer(_ERROR_TEXT_BYTES)
        configuration = library.rd_kafka_conf_new()
        for name, value in _SETTINGS.items():
            result = library.rd_kafka_conf_set(
                configuration, name.encode(), value.encode(), error_text, _ERROR_TEXT_BYTES
            )
            if result != _RD_KAFKA_CONF_OK:
                raise EmbeddedBrokerError(f"librdkafka refused {name}: {error_text.value.decode()}")
        client: int | None = library.rd_kafka_new(
            _RD_KAFKA_PRODUCER, configuration, error_text, _ERROR_TEXT_BYTES
        )
        if not client:
            raise EmbeddedBrokerError(
                f"librdkafka could not start its mock cluster: {error_text.value.decode()}"
            )
        return client


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(cimpl.__file__)
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    error_text = [ctypes.c_char_p, ctypes.c_size_t]
    signatures: dict[str, tuple[type | None, list[type]]] = {
        "rd_kafka_conf_new": (pointer, []),
        "rd_kafka_conf_set": (number, [pointer, text, text, *error_text]),
        "rd_kafka_new": (pointer, [number, pointer, *error_text]),
        "rd_kafka_handle_mock_cluster": (pointer, [pointer]),
        "rd_kafka_mock_cluster_bootstraps": (text, [pointer]),
        "rd_kafka_mock_topic_create": (number, [pointer, text, number, number]),
        "rd_kafka_mock_group_initial_rebalance_delay_ms": (None, [pointer, ctypes.c_int32]),
    }
    for name, (result, arguments) in signatures.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise EmbeddedBrokerError(
                f"this build of confluent-kafka does not export {name}: install the wheel "
                "from PyPI (pip install --force-reinstall confluent-kafka), or use a Kafka broker"
            ) from None
        function.restype = result
        function.argtypes = arguments
    return library


PARTITIONS_BY_DEFAULT = 4  # of a topic that a client's metadata request creates

RETAINED_BYTES_PER_PARTITION = 5 * 1024 * 1024

_PARTITIONS_MAX = 1000
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_LINE_BYTES_MAX = 64 * 1024
_PARENT_CHECK_SECONDS = 1.0
_START_SECONDS_MAX = 15.0
_REPLY_SECONDS_MAX = 5.0
_STOP_SECONDS_MAX = 5.0


class EmbeddedBroker:
    """The embedded broker as a context manager; methods raise ``EmbeddedBrokerError``."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._bootstrap_servers = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        if not self._bootstrap_servers:
            raise EmbeddedBrokerError("the embedded broker has not been started")
        return self._bootstrap_servers

    @property
    def pid(self) -> int:
        return self._running().pid

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        if self._process is not None:
            raise EmbeddedBrokerError("the embedded broker is already running")
        # The process gets its own session, because Ctrl-C must stop the workers while their broker
        # is still running.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "streams.kafka.embedded_broker"],
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
        process = self._running()
        assert process.stdin is not None
        request = json.dumps({"topic": name, "partitions": partitions}) + "\n"
        try:
            process.stdin.write(request.encode())
        except BrokenPipeError:
            raise EmbeddedBrokerError(_how_it_ended(process)) from None
        self._reply(_REPLY_SECONDS_MAX)

    def stop(self) -> None:
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
        ready, _, _ = select.select([process.stdout], [], [], seconds_max)
        if not ready:
            raise EmbeddedBrokerError(f"the embedded broker did not answer within {seconds_max} s")
        line = process.stdout.readline()  # which is written at once
        if not line:
            raise EmbeddedBrokerError(_how_it_ended(process))
        reply = json.loads(line)
        if "error" in reply:
            raise EmbeddedBrokerError(reply["error"])
        return dict(reply)


def _how_it_ended(process: subprocess.Popen[bytes]) -> str:
    try:
        code = process.wait(_STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        return "the embedded broker closed its output but is still running"
    return f"the embedded broker ended with code {code}: see its messages on standard error"


def _topic_wanted(line: bytes) -> tuple[str, int]:
    try:
        request = json.loads(line)
        name, partitions = request["topic"], request["partitions"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f'not {{"topic": …, "partitions": …}}: {error!r}') from None
    if not isinstance(name, str) or not _TOPIC_NAME.fullmatch(name):
        raise ValueError(f"topic name {name!r}: 1 to 249 letters, digits, '.', '_' or '-'")
    # In Python, True is an int.
    if type(partitions) is not int or not 1 <= partitions <= _PARTITIONS_MAX:
        raise ValueError(f"topic {name!r}: {partitions!r} partitions, not 1 to {_PARTITIONS_MAX}")
    return name, partitions


def _answer(cluster: MockCluster, line: bytes) -> dict[str, object]:
    try:
        name, partitions = _topic_wanted(line)
        cluster.create_topic(name, partitions)
    except (ValueError, EmbeddedBrokerError) as error:
        return {"error": str(error)}
    return {"topic": name, "partitions": partitions}


def _respond(message: Mapping[str, object]) -> None:
    print(json.dumps(message), flush=True)  # noqa: T201 - the line protocol


def _serve(cluster: MockCluster) -> None:
    """Serve requests until standard input closes or the parent process ends."""
    parent = os.getppid()
    # Without a buffer, in which ``select`` would not see a second line.
    with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as requests:
        # A child process of the parent may keep the pipe open, so check the parent too.
        while os.getppid() == parent:
            ready, _, _ = select.select([requests], [], [], _PARENT_CHECK_SECONDS)
            if not ready:
                continue
            line = requests.readline(_LINE_BYTES_MAX + 1)
            if not line:
                return
            if len(line) > _LINE_BYTES_MAX:
                _respond({"error": f"a request of more than {_LINE_BYTES_MAX} bytes"})
                return
            _respond(_answer(cluster, line))


def main() -> int:
    try:
        cluster = MockCluster()
        _respond({"bootstrap_servers": cluster.bootstrap_servers})
        _serve(cluster)
    except EmbeddedBrokerError as error:
        _respond({"error": str(error)})
        return 1
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
