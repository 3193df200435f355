"""Kafka properties: names translated, guarantees kept, security in effect, secrets hidden."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.errors import SettingsError
from streams.settings.kafka_properties import MASK, RESERVED, is_secret, property_name, translate
from tests.unit.settings.sources import load, problems_of

SASL = (
    "kafka.security.protocol=SASL_SSL",
    "kafka.sasl.mechanism=SCRAM-SHA-512",
    "kafka.sasl.username=lu",
    "kafka.sasl.password=hush",
)

TOKENS = (
    "kafka.security.protocol=SASL_PLAINTEXT",
    "kafka.sasl.mechanism=OAUTHBEARER",
    "kafka.sasl.oauthbearer.method=oidc",
    "kafka.sasl.oauthbearer.token.endpoint.url=https://login.example.org/token",
    "kafka.sasl.oauthbearer.client.id=firstseen",
    "kafka.sasl.oauthbearer.client.secret=hush",
)
KERBEROS = ("kafka.security.protocol=SASL_PLAINTEXT", "kafka.sasl.mechanism=GSSAPI")


def refusal(*assignments: str, setting: str) -> str:
    """The message with which a Kafka property is refused."""
    return problems_of(*assignments)[f"kafka.{setting}"].message


def test_variables_name_properties() -> None:
    """Given the last part of a variable, then underscores are dots."""
    assert property_name("SASL_MECHANISM") == "sasl.mechanism"


def test_properties_are_passed_on() -> None:
    """Given properties that librdkafka knows, then they are in the settings, as text."""
    environ = {"FIRSTSEEN_KAFKA__SOCKET_KEEPALIVE_ENABLE": "true"}

    loaded = load("kafka.client.id=crawler", *SASL, environ=environ)

    assert loaded.settings.kafka == {
        "client.id": "crawler",
        "socket.keepalive.enable": "true",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "lu",
        "sasl.password": "hush",
    }


@pytest.mark.parametrize("name", RESERVED)
def test_guarantees_cannot_be_overridden(name: str) -> None:
    """Given a property that a guarantee rests on, then it is refused, and the reason is told."""
    assert RESERVED[name] in refusal(f"kafka.{name}=1", setting=name)


@pytest.mark.parametrize(
    ("assignment", "says"),
    [
        ("kafka.zookeeper.connect=x:1", "zookeeper.connect"),
        ("kafka.socket.timeout.ms=soon", "Invalid value"),
        ("kafka.socket.timeout.ms=1", "outside allowed range"),
        ("kafka.retries=0", "idempotence"),
    ],
)
def test_librdkafka_is_asked(assignment: str, says: str) -> None:
    """Given a property or value that librdkafka does not take, then its own reason is told."""
    name = assignment.removeprefix("kafka.").partition("=")[0]

    assert says in refusal(assignment, setting=name)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("sasl.jaas.config", "sasl.username and sasl.password"),
        ("key.deserializer", "Java code"),
        ("sasl.client.callback.handler.class", "Java code"),
        ("max.poll.records", "batch.documents"),
    ],
)
def test_what_only_java_has(name: str, says: str) -> None:
    """Given a property that only the Java client has, then it is refused with the way to go."""
    assert says in refusal(f"kafka.{name}=x", setting=name)


def test_pem_stores_are_translated() -> None:
    """Given stores as PEM files by the Java client's names, then they get librdkafka's."""
    translation = translate(
        {
            "ssl.truststore.location": "/etc/ca.pem",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": "/etc/client.store",
            "sasl.mechanisms": "PLAIN",
            "ssl.endpoint.identification.algorithm": "",
        }
    )

    assert translation.properties == {
        "ssl.ca.location": "/etc/ca.pem",
        "ssl.certificate.location": "/etc/client.store",
        "ssl.key.location": "/etc/client.store",
        "sasl.mechanism": "PLAIN",
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert translation.refused == ()


@pytest.mark.parametrize(
    "properties",
    [
        {"ssl.truststore.location": "/etc/trust.jks"},
        {"ssl.truststore.location": "/etc/trust", "ssl.truststore.type": "PKCS12"},
        {"ssl.keystore.location": "/etc/client.jks"},
        {"ssl.keystore.location": "/etc/client", "ssl.keystore.type": "JKS"},
    ],
)
def test_other_stores_are_refused(properties: dict[str, str]) -> None:
    """Given a store that only Java reads, then it is refused, with how to convert it."""
    refused = translate(properties).refused

    assert "openssl" in refused[0].message
    assert not translate(properties).properties


def test_a_pem_file_has_no_store_password() -> None:
    """Given a password for a store that is a PEM file, then it is refused, with the other name."""
    properties = {"ssl.keystore.location": "/etc/client.pem", "ssl.keystore.password": "x"}

    (refused,) = translate(properties).refused

    assert refused.name == "ssl.keystore.password"
    assert "ssl.key.password" in refused.message


def test_a_pkcs12_store_is_passed_on() -> None:
    """Given the client's key as a PKCS#12 store, then librdkafka gets it; what was translated can
    be translated again.
    """
    store = {"ssl.keystore.location": "/etc/client", "ssl.keystore.password": "x"}

    once = translate({**store, "ssl.keystore.type": "PKCS12"})

    assert once.refused == ()
    assert once.properties == store
    assert translate(once.properties).properties == store


@pytest.mark.parametrize(
    ("assignments", "setting", "says"),
    [
        (SASL[1:], "sasl.username", "PLAINTEXT"),
        (("kafka.ssl.ca.pem=x",), "ssl.ca.pem", "PLAINTEXT"),
        (SASL[:3], "sasl.password", "must be given"),
        ((SASL[0], *SASL[2:]), "sasl.mechanism", "SCRAM-SHA-512"),
        ((SASL[0], "kafka.sasl.mechanism=DIGEST-MD5"), "sasl.mechanism", "one of PLAIN"),
        (TOKENS[:2], "sasl.oauthbearer.method", "must be oidc"),
        ((*TOKENS[:3], *TOKENS[4:]), "sasl.oauthbearer.method", "endpoint.url` is mandatory"),
        (("kafka.security.protocol=TLS",), "security.protocol", "SASL_SSL"),
        ((*SASL, "kafka.ssl.crl.location=/x"), "ssl.crl.location", "No such file"),
        ((*KERBEROS, "kafka.sasl.kerberos.keytab=/x"), "sasl.kerberos.keytab", "No such file"),
        (("kafka.sasl.kerberos.keytab=/x",), "sasl.kerberos.keytab", "PLAINTEXT"),
        ((*SASL, "kafka.ssl.ca.location=/no/ca.pem"), "ssl.ca.location", "No such file"),
        ((*SASL, "kafka.ssl.ca.pem=no PEM"), "ssl.ca.pem", "librdkafka says"),
        ((*SASL, f"kafka.ssl.key.location={__file__}"), "ssl.certificate.location", "each other"),
    ],
)
def test_security_that_cannot_be(assignments: tuple[str, ...], setting: str, says: str) -> None:
    """Given security that has no effect or is half given, then it is refused: nobody should believe
    a connection secured that is not.
    """
    assert says in refusal(*assignments, setting=setting)


def test_tokens_of_a_server() -> None:
    """Given all that tokens need (OAUTHBEARER), then it is passed on."""
    kafka = load(*TOKENS).settings.kafka

    assert kafka["sasl.oauthbearer.client.secret"] == "hush"
    assert len(kafka) == len(TOKENS)


def test_kerberos_is_up_to_the_library() -> None:
    """Given Kerberos, then it is passed on where librdkafka was built with it; else its own reason
    is told.
    """
    try:
        kafka = load(*KERBEROS).settings.kafka
    except SettingsError as error:
        assert "GSSAPI" in str(error)  # noqa: PT017 - one of two outcomes
    else:
        assert kafka["sasl.mechanism"] == "GSSAPI"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("sasl.password", True),
        ("ssl.key.password", True),
        ("ssl.key.pem", True),
        ("sasl.jaas.config", True),
        ("sasl.oauthbearer.client.secret", True),
        ("sasl.oauthbearer.assertion.private.key.passphrase", True),
        ("sasl.oauthbearer.assertion.private.key.pem", True),
        ("sasl.username", False),
        ("ssl.key.location", False),
        ("client.id", False),
    ],
)
def test_which_are_secret(name: str, secret: bool) -> None:
    """Given a name, then what may not be shown is known by it."""
    assert is_secret(name) is secret


def test_secrets_are_not_in_messages(tmp_path: Path) -> None:
    """Given secrets in wrong settings from every source, then no message has them."""
    (path := tmp_path / "a.toml").write_text('[kafka]\n"ssl.key.password" = "hush-1"\n')

    problems = problems_of(
        "kafka.sasl.password=hush-2",
        environ={"FIRSTSEEN_KAFKA__SASL_JAAS_CONFIG": "hush-3"},
        config=path,
    )

    assert problems["kafka.sasl.jaas.config"].value == MASK
    assert "hush" not in str([str(problem) for problem in problems.values()])
