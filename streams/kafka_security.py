"""How connections are secured, for both clients: librdkafka takes properties, Faust an SSL context.

Only what both can do is accepted. A setting of security that one of them would pass over in
silence is an error.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from streams.kafka_properties import Refusal

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

_SASL: Final = ("sasl.mechanism", "sasl.username", "sasl.password")
_SSL: Final = (
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
)
_CHECKS: Final = ("enable.ssl.certificate.verification", "ssl.endpoint.identification.algorithm")
_FILES: Final = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")

SECURITY_PROPERTIES: Final = ("security.protocol", *_SASL, *_SSL, *_CHECKS)
"""The properties of security that both clients understand."""


class Security(NamedTuple):
    """What a client needs beside the address; ``tls`` None is no encryption, "" no SASL."""

    protocol: str
    mechanism: str
    username: str
    password: str
    tls: ssl.SSLContext | None


def security_problems(properties: Mapping[str, str]) -> Iterator[Refusal]:
    """Yield what is wrong with the properties of security, without building anything."""
    for name in properties:
        if name.startswith(("sasl.", "ssl.")) and name not in SECURITY_PROPERTIES:
            yield Refusal(
                name,
                "Faust's consumer has nothing that corresponds to it; "
                f"the properties of security are {', '.join(SECURITY_PROPERTIES)}",
            )
    protocol = _protocol(properties)
    if protocol not in PROTOCOLS:
        yield Refusal("security.protocol", f"it must be one of {', '.join(PROTOCOLS)}")
        return
    yield from _sasl_problems(properties, protocol)
    if not protocol.endswith("SSL"):
        for name in set(_SSL) & set(properties):
            yield Refusal(
                name, f"security.protocol is {protocol}, so it has no effect: SSL or SASL_SSL"
            )
    yield from _file_problems(properties)


def _sasl_problems(properties: Mapping[str, str], protocol: str) -> Iterator[Refusal]:
    if not protocol.startswith("SASL"):
        for name in set(_SASL) & set(properties):
            yield Refusal(
                name,
                f"security.protocol is {protocol}, so it has no effect: "
                "SASL_SSL (or SASL_PLAINTEXT, unencrypted)",
            )
        return
    if properties.get("sasl.mechanism") not in MECHANISMS:
        yield Refusal("sasl.mechanism", f"it must be one of {', '.join(MECHANISMS)}")
    for name in ("sasl.username", "sasl.password"):
        if not properties.get(name):
            yield Refusal(name, f"security.protocol is {protocol}: it must be given")


def _file_problems(properties: Mapping[str, str]) -> Iterator[Refusal]:
    for name in _FILES:
        path = properties.get(name)
        if path is None or (name == "ssl.ca.location" and path == "probe"):
            continue
        try:
            if not (name == "ssl.ca.location" and Path(path).is_dir()):
                Path(path).read_bytes()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            yield Refusal(name, f"the file cannot be read: {reason}")
    if ("ssl.certificate.location" in properties) != ("ssl.key.location" in properties):
        yield Refusal(
            "ssl.certificate.location", "a client certificate needs ssl.key.location too, and back"
        )


def security_of(properties: Mapping[str, str]) -> Security:
    """Return the security of connections; ``properties`` have no ``security_problems``.

    Raises ``ValueError`` for a certificate or key that cannot be used.
    """
    protocol = _protocol(properties)
    sasl = protocol.startswith("SASL")
    return Security(
        protocol,
        properties["sasl.mechanism"] if sasl else "",
        properties["sasl.username"] if sasl else "",
        properties["sasl.password"] if sasl else "",
        _tls(properties) if protocol.endswith("SSL") else None,
    )


def _protocol(properties: Mapping[str, str]) -> str:
    return properties.get("security.protocol", "PLAINTEXT")


def _tls(properties: Mapping[str, str]) -> ssl.SSLContext:
    location = properties.get("ssl.ca.location")
    if location == "probe":
        location = None
    directory = location is not None and Path(location).is_dir()
    try:
        context = ssl.create_default_context(
            cafile=None if directory else location,
            capath=location if directory else None,
            cadata=properties.get("ssl.ca.pem"),
        )
        if "ssl.certificate.location" in properties:
            # Without a password, Python would ask for one on the terminal, and wait.
            context.load_cert_chain(
                properties["ssl.certificate.location"],
                properties["ssl.key.location"],
                properties.get("ssl.key.password", ""),
            )
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ValueError(f"certificates or key cannot be used: {error}") from error
    if properties.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if properties.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    return context
