"""librdkafka's mock cluster, in the library that confluent-kafka has loaded already.

librdkafka, the C library under confluent-kafka, carries a small Kafka broker for its own tests. A
confluent-kafka client can switch it on (``test.mock.num.brokers``), but then every topic has four
partitions and the first member of every consumer group waits three seconds. The C functions that
set both are public (``rdkafka_mock.h``), so this module calls them with ctypes. It has no link to
a file name: a handle on confluent-kafka's extension module also finds the symbols of the libraries
that the module depends on.

The cluster listens on 127.0.0.1 only, on a port that the system chooses, and lives until the
process ends; ``streams.kafka.embedded_broker`` gives it a process of its own. What it can and
cannot do is written there.
"""

from __future__ import annotations

import ctypes

from confluent_kafka import cimpl

_RD_KAFKA_PRODUCER = 0
_RD_KAFKA_CONF_OK = 0
_RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS = 36
_ERROR_TEXT_BYTES = 512

_SETTINGS = {
    "test.mock.num.brokers": "1",
    # It reports at level 5 that the mock cluster is on, which is no news here.
    "log_level": "3",
}


class MockClusterError(RuntimeError):
    """The mock cluster could not be started, or refused a request."""


class MockCluster:
    """One mock broker inside this process.

    Args:
        first_join_delay_ms: How long a consumer group waits for more members when its first one
            joins, in milliseconds.

    Raises:
        MockClusterError: This build of confluent-kafka has no mock cluster to reach, or it could
            not start.
    """

    def __init__(self, *, first_join_delay_ms: int = 0) -> None:
        self._library = _library()
        # The cluster belongs to a client, which is never used otherwise.
        client = self._new_client()
        self._cluster = self._library.rd_kafka_handle_mock_cluster(client)
        if not self._cluster:
            raise MockClusterError("librdkafka started a client without its mock cluster")
        self._library.rd_kafka_mock_group_initial_rebalance_delay_ms(
            self._cluster, first_join_delay_ms
        )

    @property
    def bootstrap_servers(self) -> str:
        """The address that clients connect to, ``127.0.0.1:port``."""
        address: bytes = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster)
        return address.decode()

    def create_topic(self, name: str, partitions: int) -> None:
        """Make a topic with a number of partitions.

        Raises:
            MockClusterError: There is such a topic already (a client that only asked for its
                metadata has made one, with four partitions), or the cluster refused.
        """
        error: int = self._library.rd_kafka_mock_topic_create(
            self._cluster, name.encode(), partitions, 1
        )
        if error == _RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS:
            raise MockClusterError(
                f"topic {name!r} exists already: create it before any client uses it"
            )
        if error:
            raise MockClusterError(
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
                raise MockClusterError(f"librdkafka refused {name}: {error_text.value.decode()}")
        client: int | None = library.rd_kafka_new(
            _RD_KAFKA_PRODUCER, configuration, error_text, _ERROR_TEXT_BYTES
        )
        if not client:
            raise MockClusterError(
                f"librdkafka could not start its mock cluster: {error_text.value.decode()}"
            )
        return client


def _library() -> ctypes.CDLL:
    """librdkafka, with the signatures of the functions that are called here (rdkafka_mock.h)."""
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
            raise MockClusterError(
                f"this build of confluent-kafka does not export {name}: install the wheel "
                "from PyPI (pip install --force-reinstall confluent-kafka), or use a Kafka broker"
            ) from None
        function.restype = result
        function.argtypes = arguments
    return library
