"""How brokers for tests are configured: one place for every property that more than one has.

One node, KRaft, small, quick to start and to restart; and what is added for a broker that is
killed, for one of three, for one with TLS and for one whose speed is measured. ``docs/kafka.md``
says what was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

JVM_OPTIONS = (
    "-Xms128m",
    "-Xmx512m",
    # One compiler level and the simplest collector: half the processor time until it answers, and a
    # fifth less memory. A measurement of speed should not have them.
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    # Without a configuration file Log4j prints errors only.
    "-Dlog4j2.level=WARN",
)

MEASURED_JVM_OPTIONS = ("-Xms256m", "-Xmx1g", "-XX:+UseG1GC", "-Dlog4j2.level=WARN")
"""For a broker whose speed is measured: compilers and collector that one in service has."""

CONTROLLER_ID = 1
"""The number of the broker that is its cluster's controller as well; others join it."""

_PROPERTIES = {
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",
    # One broker cannot replicate.
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # 50 partitions each by default, all made at first use.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    # Lets a test see a killed worker replaced within seconds.
    "group.min.session.timeout.ms": "1000",
    # A broker that stands still for so long, as on a busy machine, is fenced by its own controller,
    # and for a moment its topics have no leader: 9 s by default.
    "broker.session.timeout.ms": "20000",
    # 128 MB of heap by default, taken at the start.
    "log.cleaner.dedupe.buffer.size": "16777216",
    # A new partition has two index files of 10 MiB by default, all holes. At the first append the
    # kernel fills as much of each with zeros as the disk reads ahead, and that may be all of it.
    "log.index.size.max.bytes": "1048576",
}

SOON_ABORTED = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
"""For a broker that aborts a transaction when its time is over: ten seconds later by default."""

SHORT_SESSION = {
    # After a kill the broker is let in again only when its former session has run out.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "250",
}
"""For a broker that is killed and started again."""

ONE_OF_THREE = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "1",
    # A broker that is killed is out of service, and of the copies in sync, after so long.
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "500",
}
"""For a broker in a cluster of three, of which two may be killed."""


TWO_IN_SYNC = {
    **ONE_OF_THREE,
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    # A copy that cannot be reached is out of the copies in sync after so long: 30 s by default.
    "replica.lag.time.max.ms": "10000",
}
"""For a broker in a cluster of three, of which one may be killed without anybody waiting for it."""


def tls(key_and_certificate: Path, authority: Path) -> dict[str, str]:
    """Properties of a broker with TLS listeners; both arguments are PEM files."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(key_and_certificate),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority),
    }


def protocols(**listeners: str) -> dict[str, str]:
    """The property that gives each listener its protocol; PLAINTEXT where it is not given."""
    chosen = {"CONTROLLER": "PLAINTEXT", "PLAINTEXT": "PLAINTEXT", **listeners}
    pairs = ",".join(f"{name}:{protocol}" for name, protocol in chosen.items())
    return {"listener.security.protocol.map": pairs}


def server_properties(
    *,
    host: str,
    client_port: int,
    controllers: Mapping[int, str],
    data: Path,
    overrides: Mapping[str, str],
    node_id: int,
) -> dict[str, str]:
    """All properties of a broker, which is one of its cluster's controllers or joins them.

    ``controllers``: the addresses of all, by number.
    """
    listeners = f"PLAINTEXT://{host}:{client_port}"
    is_controller = node_id in controllers
    if is_controller:
        listeners += f",CONTROLLER://{controllers[node_id]}"
    return {
        **_PROPERTIES,
        **protocols(),
        "process.roles": "broker,controller" if is_controller else "broker",
        "node.id": str(node_id),
        "listeners": listeners,
        "advertised.listeners": listeners,
        "controller.quorum.bootstrap.servers": ",".join(controllers.values()),
        "log.dirs": str(data),
        **overrides,
    }
