"""How connections are secured: what librdkafka passes over in silence, and what it says unclearly.

librdkafka checks most of its properties itself (``kafka_properties.not_accepted``). It does not
mind security that has no effect, and nobody should believe a connection secured that is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from streams.settings.kafka_properties import RefusedProperty

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")

_WITH_PASSWORD: Final = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})
_WITHOUT_EFFECT: Final = frozenset({"ssl.endpoint.identification.algorithm"})
"""Java's client.properties have it for connections without TLS, too."""
_FILES: Final = (
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.crl.location",
    "ssl.keystore.location",
    "sasl.kerberos.keytab",
)


def security_problems(properties: Mapping[str, str]) -> Iterator[RefusedProperty]:
    """Yield what is wrong with the properties of security, without connecting to anything."""
    protocol = properties.get("security.protocol", "PLAINTEXT")
    if protocol not in PROTOCOLS:
        yield RefusedProperty("security.protocol", f"it must be one of {', '.join(PROTOCOLS)}")
        return
    if protocol.startswith("SASL"):
        yield from _sasl_problems(properties, protocol)
    else:
        yield from _no_effect(properties, "sasl.", protocol, "SASL_SSL (or SASL_PLAINTEXT)")
    if not protocol.endswith("SSL"):
        yield from _no_effect(properties, "ssl.", protocol, "SSL or SASL_SSL")
    yield from _file_problems(properties)


def _no_effect(
    properties: Mapping[str, str], prefix: str, protocol: str, instead: str
) -> Iterator[RefusedProperty]:
    for name in properties:
        if name.startswith(prefix) and name not in _WITHOUT_EFFECT:
            yield RefusedProperty(
                name, f"security.protocol is {protocol}, so it has no effect: {instead}"
            )


def _sasl_problems(properties: Mapping[str, str], protocol: str) -> Iterator[RefusedProperty]:
    mechanism = properties.get("sasl.mechanism")
    if mechanism not in MECHANISMS:
        yield RefusedProperty("sasl.mechanism", f"it must be one of {', '.join(MECHANISMS)}")
    elif mechanism in _WITH_PASSWORD:
        for name in ("sasl.username", "sasl.password"):
            if not properties.get(name):
                yield RefusedProperty(name, f"security.protocol is {protocol}: it must be given")
    elif mechanism == "OAUTHBEARER" and not (
        properties.get("sasl.oauthbearer.method", "").lower() == "oidc"
        or properties.get("enable.sasl.oauthbearer.unsecure.jwt") == "true"
    ):
        yield RefusedProperty(
            "sasl.oauthbearer.method",
            "it must be oidc, with sasl.oauthbearer.token.endpoint.url, sasl.oauthbearer.client.id "
            "and sasl.oauthbearer.client.secret: no other source of tokens is supported",
        )


def _file_problems(properties: Mapping[str, str]) -> Iterator[RefusedProperty]:
    for name in _FILES:
        path = properties.get(name)
        if path is None or (name == "ssl.ca.location" and path == "probe"):
            continue
        try:
            if not (name == "ssl.ca.location" and Path(path).is_dir()):
                with Path(path).open("rb"):
                    pass
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            yield RefusedProperty(name, f"the file cannot be read: {reason}")
    if ("ssl.certificate.location" in properties) != ("ssl.key.location" in properties):
        yield RefusedProperty(
            "ssl.certificate.location",
            "ssl.certificate.location and ssl.key.location need each other",
        )
