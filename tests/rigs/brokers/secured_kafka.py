"""A Kafka that requires a password or a certificate, and has ACLs.

It has three listeners: SASL_SSL with SCRAM-SHA-512, SSL that requires a client certificate, and
PLAINTEXT for the broker itself and for the preparation of tests, which may do everything. The two
users of the other listeners may only do what ``grant`` has granted to them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from confluent_kafka.admin._acl import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
)
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from streams.kafka.clients import AdminClient
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.rigs.brokers.kafka_configuration import protocols, tls
from tests.rigs.brokers.loopback_ports import free_port
from tests.rigs.waiting import await_that
from tests.unit.settings.certificates import Certificates

USER: Final = "firstseen"
PASSWORD: Final = "scram-pass=word 7#"  # noqa: S105 - of a broker that lives as long as a test

_SECONDS_MAX: Final = 60.0
_ANY: Final[Any] = None  # of which the type of the filter knows nothing
_ALL: Final = AclBindingFilter(
    ResourceType.ANY,
    _ANY,
    ResourcePatternType.ANY,
    _ANY,
    _ANY,
    AclOperation.ANY,
    AclPermissionType.ANY,
)
_HOST: Final = "127.0.0.1"
_PACKAGE: Final = "org.apache.kafka"


class Grant(NamedTuple):
    """Operations on a ``Topic``, ``Group`` or ``TransactionalId``; a name with * is a prefix."""

    kind: str
    name: str
    operations: tuple[str, ...]


class SecuredKafka:
    """The broker and its addresses; a context manager that starts and ends it."""

    def __init__(self, directory: Path, certificates: Certificates) -> None:
        self.certificates = certificates
        plain, controller, scram, mtls = (free_port() for _ in range(4))
        self.sasl_ssl = f"{_HOST}:{scram}"
        self.mtls = f"{_HOST}:{mtls}"
        listeners = {"PLAINTEXT": plain, "SCRAM": scram, "MTLS": mtls}
        addresses = ",".join(f"{name}://{_HOST}:{port}" for name, port in listeners.items())
        self.server = KafkaBroker(
            directory,
            client_port=plain,
            controller_port=controller,
            properties={
                "listeners": f"{addresses},CONTROLLER://{_HOST}:{controller}",
                "advertised.listeners": addresses,
                **protocols(SCRAM="SASL_SSL", MTLS="SSL"),
                "sasl.enabled.mechanisms": "SCRAM-SHA-512",
                "listener.name.scram.scram-sha-512.sasl.jaas.config": (
                    f"{_PACKAGE}.common.security.scram.ScramLoginModule required;"
                ),
                "listener.name.mtls.ssl.client.auth": "required",
                **tls(certificates.server, certificates.authority),
                "authorizer.class.name": f"{_PACKAGE}.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
            },
            format_options=["--add-scram", f'SCRAM-SHA-512=[name={USER},password="{PASSWORD}"]'],
        )

    def __enter__(self) -> Self:
        self.server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.kill()
        self.server.remove_data()

    def scram_properties(self) -> dict[str, str]:
        """Return a client's properties for the password, without the password."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": USER,
            "ssl.ca.location": str(self.certificates.authority),
        }

    def mtls_properties(self) -> dict[str, str]:
        """Return a client's properties for the certificate, without the password of its key."""
        return {
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.certificates.authority),
            "ssl.certificate.location": str(self.certificates.client),
            "ssl.key.location": str(self.certificates.client_key),
        }

    def grant(self, grants: Iterable[Grant]) -> None:
        bindings = [
            AclBinding(
                ResourceType[_constant(grant.kind)],
                grant.name.removesuffix("*"),
                ResourcePatternType["PREFIXED" if grant.name.endswith("*") else "LITERAL"],
                principal,
                "*",
                AclOperation[_constant(operation)],
                AclPermissionType.ALLOW,
            )
            for grant in grants
            for operation in grant.operations
            for principal in (f"User:{USER}", "User:CN=client")
        ]
        admin = AdminClient({"bootstrap.servers": self.server.bootstrap_servers})
        for future in admin.create_acls(bindings, request_timeout=_SECONDS_MAX).values():
            future.result(_SECONDS_MAX)
        # The controller has them; the broker knows them a moment later.
        await_that(lambda: set(bindings) <= {*admin.describe_acls(_ALL).result(_SECONDS_MAX)})


def _constant(name: str) -> str:
    """Return, for example, ``DESCRIBE_CONFIGS`` for ``DescribeConfigs``."""
    return "".join(f"_{sign}" if sign.isupper() else sign for sign in name).lstrip("_").upper()
