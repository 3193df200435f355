"""Properties that are passed on to the Kafka clients: by which names, and which are not the user's.

Names are librdkafka's. Those of the Java client that differ are translated where there is a
translation, and refused with the fix where there is none, so that a ``client.properties`` made for
Kafka's own tools can be used. What Firstseen's guarantees rest on cannot be overridden.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from types import MappingProxyType
from typing import Final, NamedTuple

MASK: Final = "(set)"
"""What is shown in place of a secret."""

_SECRET_PARTS: Final = (
    "password",
    "passphrase",
    "secret",
    "token",
    "jaas",
    "key.pem",
    "keystore.key",
    "oauthbearer.config",
)

_OFFSETS = "Firstseen commits offsets itself, together with the outputs"
_ORDER = "outputs and internal records must keep their order and must not be repeated"
_GROUP = "it follows from application_id, which names the consumer group"

RESERVED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bootstrap.servers": "set brokers instead (FIRSTSEEN_BROKERS, --broker)",
        "metadata.broker.list": "set brokers instead (FIRSTSEEN_BROKERS, --broker)",
        "acks": "all in-sync replicas must acknowledge each send, or a crash could lose documents",
        "request.required.acks": "all in-sync replicas must acknowledge each send",
        "enable.idempotence": _ORDER,
        "enable.gapless.guarantee": _ORDER,
        "max.in.flight": _ORDER,
        "max.in.flight.requests.per.connection": _ORDER,
        "transactional.id": "it follows from application_id and the worker",
        "isolation.level": "records of aborted transactions must never be read",
        "group.id": _GROUP,
        "group.instance.id": "set group_instance_id instead",
        "group.protocol": _GROUP,
        "group.remote.assignor": _GROUP,
        "session.timeout.ms": "set session_timeout_seconds instead",
        "heartbeat.interval.ms": "it follows from session_timeout_seconds: set that",
        "partition.assignment.strategy": "other partitions must continue during a rebalance",
        "enable.auto.commit": _OFFSETS,
        "enable.auto.offset.store": _OFFSETS,
        "auto.commit.interval.ms": _OFFSETS,
        "auto.offset.reset": "a new application must begin with the earliest record",
        "message.max.bytes": "it follows from max_record_bytes and batch.*: set those",
        "max.request.size": "it follows from max_record_bytes and batch.*: set those",
        "message.timeout.ms": "set send_timeout_seconds instead",
        "delivery.timeout.ms": "set send_timeout_seconds instead",
        "test.mock.num.brokers": "it would put a broker of its own in each client's place; "
        "'firstseen demo' runs on an in-process broker",
    }
)
"""Properties that cannot be passed on, and why."""

_PEM: Final = (
    "only Java reads such a store. Convert it to PEM files (keytool -importkeystore "
    "-deststoretype pkcs12, then openssl pkcs12 -nodes)"
)
_PEM_IS_OPEN: Final = "a PEM file has no store password; a key's is ssl.key.password"
_NO_JAVA: Final = "it names Java code; leave it out"

_JAVA_REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "sasl.jaas.config": "give its user name and password as sasl.username and sasl.password",
        "ssl.keystore.key": "give the key as a PEM file, by ssl.key.location",
        "ssl.keystore.certificate.chain": "give the certificate as a PEM file, by "
        "ssl.certificate.location",
        "ssl.protocol": "the newest protocol that both sides know is used; leave it out",
        "ssl.enabled.protocols": "the newest protocol that both sides know is used; leave it out",
        "buffer.memory": "librdkafka's name is queue.buffering.max.kbytes, in KiB",
        "max.poll.records": "set batch.documents instead",
    }
)
_JAVA_STORES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "ssl.truststore": ("ssl.ca.location",),
        "ssl.keystore": ("ssl.certificate.location", "ssl.key.location"),
    }
)
_RENAMED: Final[Mapping[str, str]] = MappingProxyType(
    {"sasl.mechanisms": "sasl.mechanism", "ssl.truststore.certificates": "ssl.ca.pem"}
)
_SPELLING: Final[Mapping[str, Callable[[str], str]]] = MappingProxyType(
    {
        "security.protocol": str.upper,
        "sasl.mechanism": str.upper,
        # Java's word for "do not compare the broker's name with its certificate" is nothing.
        "ssl.endpoint.identification.algorithm": lambda value: value.lower() or "none",
    }
)
_KIND_BY_SUFFIX: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys((".pem", ".crt", ".cer", ".key"), "PEM"),
        **dict.fromkeys((".p12", ".pfx", ".pkcs12"), "PKCS12"),
        ".jks": "JKS",
    }
)
_SUFFIXES_OF_CLASSES: Final = (".class", ".classes", ".serializer", ".deserializer", ".reporters")


class RefusedProperty(NamedTuple):
    """A property that cannot be passed on, and what to do instead."""

    name: str
    message: str


class Translation(NamedTuple):
    """Properties by librdkafka's names, their ``original_names``, and the refused."""

    properties: Mapping[str, str]
    original_names: Mapping[str, str]
    refused: tuple[RefusedProperty, ...]


def is_secret(name: str) -> bool:
    """Whether the value of a property must never be shown."""
    return any(part in name for part in _SECRET_PARTS)


def property_name(environment_part: str) -> str:
    """Return the property of a variable's last part: ``SASL_MECHANISM`` is ``sasl.mechanism``."""
    return environment_part.lower().replace("_", ".")


def translate(properties: Mapping[str, str]) -> Translation:
    """Bring properties under librdkafka's names, and say which cannot be passed on."""
    kept: dict[str, str] = {}
    translated: dict[str, str] = {}
    refused: list[RefusedProperty] = []
    for name, value in properties.items():
        reason = _why_refused(name) or _why_store_refused(name, properties)
        if reason:
            refused.append(RefusedProperty(name, reason))
            continue
        for target in _targets(name, properties):
            kept[target] = _SPELLING.get(target, str)(value)
            translated[target] = name
    return Translation(kept, translated, tuple(refused))


def _targets(name: str, properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return librdkafka's names of a property; () for one that says nothing further."""
    store, _, part = name.rpartition(".")
    if store in _JAVA_STORES and part == "type":
        return ()
    if store in _JAVA_STORES and part == "location" and _kind(store, properties) == "PEM":
        return _JAVA_STORES[store]
    return (_RENAMED.get(name, name),)


def _why_store_refused(name: str, properties: Mapping[str, str]) -> str:
    """Return why a Java store cannot be used. librdkafka reads PKCS#12, for the client's key."""
    store, _, part = name.rpartition(".")
    if store not in _JAVA_STORES or part not in {"location", "type", "password"}:
        return ""
    kind = _kind(store, properties)
    if kind == "PEM":
        return _PEM_IS_OPEN if part == "password" else ""
    return "" if store == "ssl.keystore" and kind in {"PKCS12", ""} else _PEM


def _kind(store: str, properties: Mapping[str, str]) -> str:
    """Return the type that is given, or that the file's name says; "" where neither does."""
    kind = properties.get(f"{store}.type")
    if kind is not None:
        return kind.upper()
    suffix = PurePath(properties.get(f"{store}.location", "")).suffix.lower()
    return _KIND_BY_SUFFIX.get(suffix, "")


def _why_refused(name: str) -> str:
    if name in RESERVED:
        return f"this property cannot be overridden: {RESERVED[name]}"
    if name in _JAVA_REFUSED:
        return f"this property is the Java client's: {_JAVA_REFUSED[name]}"
    if name.endswith(_SUFFIXES_OF_CLASSES):
        return f"this property is the Java client's: {_NO_JAVA}"
    return ""


def not_accepted(properties: Mapping[str, str]) -> Iterator[RefusedProperty]:
    """Ask librdkafka itself, which knows its properties best; nothing is connected to.

    Yields the first property that it does not know, or whose value it does not take.
    """
    from confluent_kafka import KafkaException, Producer  # noqa: PLC0415 - slow, seldom needed

    # Logging would go to standard error, from a thread of the library.
    quiet = {"log_level": "0", **properties, "enable.idempotence": "true"}
    try:
        Producer(quiet)
    except KafkaException as error:
        message = error.args[0].str().strip()
        named = [name for name in properties if f'"{name}"' in message or name in message]
        yield RefusedProperty(max(named, key=len, default=""), f"librdkafka says: {message}")
