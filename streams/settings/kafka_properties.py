"""Properties that are passed on to the Kafka clients, and those that are refused.

Names are librdkafka's. Different names of the Java client are translated, or refused with the fix,
so that a ``client.properties`` for Kafka's own tools works. Properties that Firstseen's guarantees
need cannot be overridden.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path, PurePath
from typing import Final, NamedTuple

# ---- Java ``.properties`` files, the format of Kafka's ``client.properties``.
#
# One entry per line, ``name=value``, ``name: value`` or ``name value``. ``#`` and ``!`` begin a
# comment. A backslash continues the line at its end, and begins an escape elsewhere. Unlike in
# ``java.util.Properties``, the file is UTF-8, and a repeated name is an error.

_ENTRY: Final = re.compile(r"((?:\\.|[^\\:= \t\f])*)[ \t\f]*[:=]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROL: Final[Mapping[str, str]] = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Parse a file.

    Raises ``ValueError``, with the line number, for a missing or repeated name and for an escape
    that is no Unicode character.
    """
    entries: dict[str, str] = {}
    for number, line in _logical_lines(text):
        match = _ENTRY.fullmatch(line)
        assert match is not None  # the pattern matches any text
        name, value = (_unescaped(part, number) for part in match.groups())
        if not name:
            raise ValueError(f"line {number} has no name before its value")
        if name in entries:
            raise ValueError(f"line {number} sets {name} a second time")
        entries[name] = value
    return entries


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield entries with the number of their first line, continuation lines joined."""
    pieces: list[str] = []
    first = 0
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        piece = line.lstrip(" \t\f")
        if not pieces:
            if not piece or piece[0] in "#!":
                continue
            first = number
        goes_on = (len(piece) - len(piece.rstrip("\\"))) % 2 == 1
        pieces.append(piece[:-1] if goes_on else piece)
        if not goes_on:
            yield first, "".join(pieces)
            pieces = []
    if pieces:
        yield first, "".join(pieces)


def _unescaped(text: str, line: int) -> str:
    def replaced(match: re.Match[str]) -> str:
        code = match[1]
        if len(code) > 1:
            return chr(int(code[1:], 16))
        if code == "u":
            raise ValueError(f"line {line} has a \\u without four hexadecimal digits")
        return _CONTROL.get(code, code)

    return _ESCAPE.sub(replaced, text)


MASK: Final = "(set)"

_SECRET_PARTS: Final = (
    *("password", "passphrase", "secret", "token"),
    *("jaas", "key.pem", "keystore.key", "oauthbearer.config"),
)
_REFUSED: Final = tomllib.loads((files(__package__) / "refused_properties.toml").read_text("utf-8"))
RESERVED: Final[Mapping[str, str]] = _REFUSED["reserved"]
"""Properties that Firstseen's guarantees need, and why they cannot be overridden."""

_PEM: Final = (
    "only Java reads such a store. Convert it to PEM files (keytool -importkeystore "
    "-deststoretype pkcs12, then openssl pkcs12 -nodes)"
)
_PEM_IS_OPEN: Final = "a PEM file has no store password; a key's is ssl.key.password"
_NO_JAVA: Final = "it names Java code; remove it"

_JAVA_STORES: Final[Mapping[str, tuple[str, ...]]] = {
    "ssl.truststore": ("ssl.ca.location",),
    "ssl.keystore": ("ssl.certificate.location", "ssl.key.location"),
}
_RENAMED: Final = {"sasl.mechanisms": "sasl.mechanism", "ssl.truststore.certificates": "ssl.ca.pem"}
_SPELLING: Final[Mapping[str, Callable[[str], str]]] = {
    "security.protocol": str.upper,
    "sasl.mechanism": str.upper,
    # In Java an empty value disables the check of the broker's name in its certificate.
    "ssl.endpoint.identification.algorithm": lambda value: value.lower() or "none",
}
_KIND_BY_SUFFIX: Final = {
    **dict.fromkeys((".pem", ".crt", ".cer", ".key"), "PEM"),
    **dict.fromkeys((".p12", ".pfx", ".pkcs12"), "PKCS12"),
    ".jks": "JKS",
}
_SUFFIXES_OF_CLASSES: Final = (".class", ".classes", ".serializer", ".deserializer", ".reporters")


class RefusedProperty(NamedTuple):
    name: str
    message: str


class Translation(NamedTuple):
    """``properties`` have librdkafka's names; ``original_names`` are the user's."""

    properties: Mapping[str, str]
    original_names: Mapping[str, str]
    refused: tuple[RefusedProperty, ...]


def is_secret(name: str) -> bool:
    return any(part in name for part in _SECRET_PARTS)


def property_name(environment_part: str) -> str:
    """Return the property of a variable's last part: ``SASL_MECHANISM`` is ``sasl.mechanism``.

    So is ``SASL__MECHANISM``: in the names of other settings each dot is ``__``.
    """
    return environment_part.lower().replace("__", ".").replace("_", ".")


def translate(properties: Mapping[str, str]) -> Translation:
    """Translate properties to librdkafka's names, and list those that are refused."""
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
    store, _, part = name.rpartition(".")
    if store in _JAVA_STORES and part == "type":
        return ()
    if store in _JAVA_STORES and part == "location" and _kind(store, properties) == "PEM":
        return _JAVA_STORES[store]
    return (_RENAMED.get(name, name),)


def _why_store_refused(name: str, properties: Mapping[str, str]) -> str:
    """Return why a Java store is refused; librdkafka reads only PKCS#12, for the client's key."""
    store, _, part = name.rpartition(".")
    if store not in _JAVA_STORES or part not in {"location", "type", "password"}:
        return ""
    kind = _kind(store, properties)
    if kind == "PEM":
        return _PEM_IS_OPEN if part == "password" else ""
    return "" if store == "ssl.keystore" and kind in {"PKCS12", ""} else _PEM


def _kind(store: str, properties: Mapping[str, str]) -> str:
    """Return the type of a store, as given or by the file's name; "" where unknown."""
    kind = properties.get(f"{store}.type")
    if kind is not None:
        return kind.upper()
    suffix = PurePath(properties.get(f"{store}.location", "")).suffix.lower()
    return _KIND_BY_SUFFIX.get(suffix, "")


def _why_refused(name: str) -> str:
    if name in RESERVED:
        return f"this property cannot be overridden: {RESERVED[name]}"
    if name in _REFUSED["java"]:
        return f"this property is for the Java client only: {_REFUSED['java'][name]}"
    if name.endswith(_SUFFIXES_OF_CLASSES):
        return f"this property is for the Java client only: {_NO_JAVA}"
    return ""


def not_accepted(properties: Mapping[str, str]) -> Iterator[RefusedProperty]:
    """Yield the first property whose name or value librdkafka refuses, without connecting."""
    from confluent_kafka import KafkaException, Producer  # noqa: PLC0415 - slow, seldom needed

    # Logging would go to standard error, from a thread of the library.
    quiet = {"log_level": "0", **properties, "enable.idempotence": "true"}
    try:
        Producer(quiet)
    except KafkaException as error:
        message = error.args[0].str().strip()
        named = [name for name in properties if f'"{name}"' in message or name in message]
        yield RefusedProperty(max(named, key=len, default=""), f"librdkafka reports: {message}")


# ---- The security of connections, where librdkafka has no message or an unclear one.
#
# librdkafka checks most properties itself (``not_accepted``), but accepts security properties that
# have no effect. A user must not believe that such a connection is secure.

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")

_WITH_PASSWORD: Final = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})
_WITHOUT_EFFECT: Final = frozenset({"ssl.endpoint.identification.algorithm"})
"""Files for Java clients may have it without TLS, too."""
_FILES: Final = (
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.crl.location",
    "ssl.keystore.location",
    "sasl.kerberos.keytab",
)


def security_problems(properties: Mapping[str, str]) -> Iterator[RefusedProperty]:
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
            "it must be oidc, with sasl.oauthbearer.token.endpoint.url, "
            "sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret: other sources of "
            "tokens are not supported",
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
