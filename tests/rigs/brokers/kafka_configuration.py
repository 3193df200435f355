"""The configuration of brokers for tests, with every property that several of them have.

The first part is for one small KRaft node that starts and restarts quickly. Others are for a broker
that is killed, for one of three, for one with TLS, and for one whose speed is measured.
``docs/kafka.md`` has the measurements.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

JVM_OPTIONS = (
    "-Xms128m",
    "-Xmx512m",
    # One compiler level and the simplest garbage collector: half the CPU time until the broker
    # answers, and a fifth less memory. Do not use them to measure speed.
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    # Without a configuration file Log4j prints errors only.
    "-Dlog4j2.level=WARN",
)

MEASURED_JVM_OPTIONS = ("-Xms256m", "-Xmx1g", "-XX:+UseG1GC", "-Dlog4j2.level=WARN")
"""For a broker whose speed is measured: compilers and garbage collector as in production."""

CONTROLLER_ID = 1
"""The number of the broker that is also its cluster's controller; others join it."""

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
    # By default each has 50 partitions, which are all created at first use.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    # So that a killed worker is replaced within seconds in a test.
    "group.min.session.timeout.ms": "1000",
    # The same for groups with the protocol consumer, whose members follow the broker's times.
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
    # If a broker stands still for this time, as on a busy machine, its own controller fences it,
    # and for a moment its topics have no leader. The default is 9 s.
    "broker.session.timeout.ms": "20000",
    # By default the controller writes a record every 0.5 s that says that it lives: a third of what
    # an idle broker costs.
    "metadata.max.idle.interval.ms": "5000",
    # The default takes 128 MB of heap at the start.
    "log.cleaner.dedupe.buffer.size": "16777216",
    # By default a new partition has two sparse index files of 10 MiB. At the first append the
    # kernel fills each with zeros for the read-ahead of the disk, which may be the whole file.
    "log.index.size.max.bytes": "1048576",
    # By default the broker deletes records of tests whose timestamps are older than a week.
    "log.retention.ms": "-1",
}

SOON_ABORTED = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
"""For a broker that aborts a transaction at its time-out; by default it does so 10 s later."""

SHORT_SESSION = {
    # After a kill the controller accepts the broker again only when its old session has expired.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "250",
}
"""For a broker that is killed and started again."""

TORTURE_SESSION = {"group.consumer.session.timeout.ms": "10000"}
"""For groups with the protocol consumer: that of the classic protocol is the workers' setting."""

ONE_OF_THREE = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "1",
    # After this time a killed broker is fenced, and its copies are out of sync.
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "500",
}
"""For a broker in a cluster of three, of which two may be killed."""


TWO_IN_SYNC = {
    **ONE_OF_THREE,
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    # Soon enough for members of a group, whose heartbeats wait while a dead broker is in sync.
    "broker.session.timeout.ms": "3000",
    # After this time without an answer of the active controller the others elect one (2 s).
    "controller.quorum.fetch.timeout.ms": "1000",
    **TORTURE_SESSION,
    # After this time a copy that cannot be reached is out of sync. The default is 30 s.
    "replica.lag.time.max.ms": "10000",
}
"""For a broker in a cluster of three, of which one may be killed without a wait for clients."""


def tls(key_and_certificate: Path, authority: Path) -> dict[str, str]:
    """Return the properties of a broker with TLS listeners; both arguments are PEM files."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(key_and_certificate),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority),
    }


def protocols(**listeners: str) -> dict[str, str]:
    """Return the property with the protocol of each listener, by default PLAINTEXT."""
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
    """Return all properties of a broker, which is one of the controllers or joins them.

    ``controllers`` has the addresses of all controllers by number.
    """
    clients = f"PLAINTEXT://{host}:{client_port}"
    is_controller = node_id in controllers
    controller = f",CONTROLLER://{controllers[node_id]}" if is_controller else ""
    return {
        **_PROPERTIES,
        **protocols(),
        "process.roles": "broker,controller" if is_controller else "broker",
        "node.id": str(node_id),
        "listeners": clients + controller,
        "advertised.listeners": clients,
        "controller.quorum.voters": ",".join(f"{n}@{a}" for n, a in controllers.items()),
        "log.dirs": str(data),
        **overrides,
    }
