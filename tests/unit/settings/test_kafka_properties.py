"""Kafka properties are read as in Java, translated, and applied; their secrets are hidden."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.errors import SettingsError
from streams.settings.kafka_properties import (
    MASK,
    RESERVED,
    is_secret,
    parse_properties,
    translate,
)
from streams.settings.reference import text_rows
from tests.unit.settings.sources import load, problems_of

SASL = (
    "kafka.security.protocol=SASL_SSL",
    "kafka.sasl.mechanism=SCRAM-SHA-512",
    "kafka.sasl.username=lu",
    "kafka.sasl.password=hush",
)
NO_PASSWORD = SASL[:3]
TOKENS = (
    "kafka.security.protocol=SASL_PLAINTEXT",
    "kafka.sasl.mechanism=OAUTHBEARER",
    "kafka.sasl.oauthbearer.method=oidc",
    "kafka.sasl.oauthbearer.token.endpoint.url=https://login.example.org/token",
    "kafka.sasl.oauthbearer.client.id=firstseen",
    "kafka.sasl.oauthbearer.client.secret=hush",
)
KERBEROS = ("kafka.security.protocol=SASL_PLAINTEXT", "kafka.sasl.mechanism=GSSAPI")


def test_properties_of_librdkafka_are_passed_on_as_text() -> None:
    environ = {
        "FIRSTSEEN_KAFKA__SOCKET_KEEPALIVE_ENABLE": "true",
        "FIRSTSEEN_KAFKA__SOCKET__NAGLE__DISABLE": "true",
    }
    assert load("kafka.client.id=crawler", *SASL, environ=environ).settings.kafka == {
        "client.id": "crawler",
        "socket.keepalive.enable": "true",
        "socket.nagle.disable": "true",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "lu",
        "sasl.password": "hush",
    }


@pytest.mark.parametrize(
    ("setting", "says", "assignments"),
    [
        # Properties that a guarantee needs:
        *((name, reason, (f"kafka.{name}=1",)) for name, reason in RESERVED.items()),
        # Properties that librdkafka refuses, with its message:
        ("zookeeper.connect", "zookeeper.connect", ("kafka.zookeeper.connect=x:1",)),
        ("socket.timeout.ms", "Invalid value", ("kafka.socket.timeout.ms=soon",)),
        ("socket.timeout.ms", "outside allowed range", ("kafka.socket.timeout.ms=1",)),
        ("retries", "idempotence", ("kafka.retries=0",)),
        # Properties that only the Java client has:
        ("sasl.jaas.config", "sasl.username and sasl.password", ("kafka.sasl.jaas.config=x",)),
        ("key.deserializer", "Java code", ("kafka.key.deserializer=x",)),
        (
            *("sasl.client.callback.handler.class", "Java code"),
            ("kafka.sasl.client.callback.handler.class=x",),
        ),
        ("max.poll.records", "batch.documents", ("kafka.max.poll.records=x",)),
        # Security without effect or incomplete: a user must not believe that the connection is
        # secure.
        ("sasl.username", "PLAINTEXT", SASL[1:]),
        ("ssl.ca.pem", "PLAINTEXT", ("kafka.ssl.ca.pem=x",)),
        ("sasl.password", "must be given", NO_PASSWORD),
        ("sasl.mechanism", "SCRAM-SHA-512", (SASL[0], *SASL[2:])),
        ("sasl.mechanism", "one of PLAIN", (SASL[0], "kafka.sasl.mechanism=DIGEST-MD5")),
        ("sasl.oauthbearer.method", "must be oidc", TOKENS[:2]),
        ("sasl.oauthbearer.method", "endpoint.url` is mandatory", (*TOKENS[:3], *TOKENS[4:])),
        ("security.protocol", "SASL_SSL", ("kafka.security.protocol=TLS",)),
        ("ssl.crl.location", "No such file", (*SASL, "kafka.ssl.crl.location=/x")),
        ("sasl.kerberos.keytab", "No such file", (*KERBEROS, "kafka.sasl.kerberos.keytab=/x")),
        ("sasl.kerberos.keytab", "PLAINTEXT", ("kafka.sasl.kerberos.keytab=/x",)),
        ("ssl.ca.location", "No such file", (*SASL, "kafka.ssl.ca.location=/no/ca.pem")),
        ("ssl.ca.pem", "librdkafka reports", (*SASL, "kafka.ssl.ca.pem=no PEM")),
        ("ssl.certificate.location", "each other", (*SASL, f"kafka.ssl.key.location={__file__}")),
    ],
)
def test_refusals_have_the_reason(setting: str, says: str, assignments: tuple[str, ...]) -> None:
    assert says in problems_of(*assignments)[f"kafka.{setting}"].message


def test_pem_stores_get_the_names_of_librdkafka() -> None:
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


PEM_KEY, JAVA_STORE = "ssl.keystore.location", "ssl.truststore.location"


@pytest.mark.parametrize(
    ("properties", "refused", "says"),
    [
        ({JAVA_STORE: "/etc/trust.jks"}, JAVA_STORE, "openssl"),
        ({JAVA_STORE: "/etc/trust", "ssl.truststore.type": "PKCS12"}, JAVA_STORE, "openssl"),
        ({PEM_KEY: "/etc/client.jks"}, PEM_KEY, "openssl"),
        ({PEM_KEY: "/etc/client", "ssl.keystore.type": "JKS"}, PEM_KEY, "openssl"),
        (
            {PEM_KEY: "/etc/client.pem", "ssl.keystore.password": "x"},
            *("ssl.keystore.password", "ssl.key.password"),
        ),
    ],
)
def test_stores_that_librdkafka_does_not_read_are_refused(
    properties: dict[str, str], refused: str, says: str
) -> None:
    translation = translate(properties)
    assert (translation.refused[0].name, refused in translation.properties) == (refused, False)
    assert says in translation.refused[0].message


def test_a_pkcs12_store_is_passed_on() -> None:
    store = {"ssl.keystore.location": "/etc/client", "ssl.keystore.password": "x"}
    translation = translate({**store, "ssl.keystore.type": "PKCS12"})
    assert (translation.refused, translation.properties) == ((), store)


def test_all_that_tokens_need_is_passed_on() -> None:
    kafka = load(*TOKENS).settings.kafka
    assert kafka["sasl.oauthbearer.client.secret"] == "hush"
    assert len(kafka) == len(TOKENS)


def test_kerberos_is_passed_on_or_refused_by_a_librdkafka_without_it() -> None:
    try:
        kafka = load(*KERBEROS).settings.kafka
    except SettingsError as error:
        assert "GSSAPI" in str(error)  # noqa: PT017 - one of two outcomes
    else:
        assert kafka["sasl.mechanism"] == "GSSAPI"


@pytest.mark.parametrize(
    "name",
    [
        *("sasl.password", "ssl.key.password", "ssl.key.pem", "sasl.jaas.config"),
        *("sasl.oauthbearer.client.secret", "sasl.oauthbearer.assertion.private.key.pem"),
        "sasl.oauthbearer.assertion.private.key.passphrase",
    ],
)
def test_a_secret_is_known_by_its_name(name: str) -> None:
    assert is_secret(name)
    assert not any(map(is_secret, ("sasl.username", "ssl.key.location", "client.id")))


def test_secrets_are_in_no_message(tmp_path: Path) -> None:
    (path := tmp_path / "a.toml").write_text('[kafka]\n"ssl.key.password" = "hush-1"\n')
    problems = problems_of(
        "kafka.sasl.password=hush-2",
        environ={"FIRSTSEEN_KAFKA__SASL_JAAS_CONFIG": "hush-3"},
        config=path,
    )
    assert problems["kafka.sasl.jaas.config"].value == MASK
    assert "hush" not in str([str(problem) for problem in problems.values()])


# ---- Secrets in files.


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_password_is_what_its_file_holds_less_one_end_of_line(tmp_path: Path, end: str) -> None:
    (secret := tmp_path / "password").write_bytes(f"hush hush{end}".encode())
    (properties := tmp_path / "client.properties").write_text(f"sasl.password.file={secret}\n")
    for loaded in (
        load(*NO_PASSWORD, environ={"FIRSTSEEN_KAFKA__SASL_PASSWORD_FILE": str(secret)}),
        load(*NO_PASSWORD, kafka_config=properties),
        load(*NO_PASSWORD, f"kafka.sasl.password.file={secret}"),
    ):
        assert loaded.settings.kafka["sasl.password"] == "hush hush"
        assert "sasl.password.file" not in loaded.settings.kafka
        assert "kafka.sasl.password.file" in loaded.origin_of("kafka.sasl.password")
        assert "hush" not in repr(text_rows(loaded)) + repr(loaded.settings)
        assert "sasl.password" in repr(loaded.settings)


def test_a_file_goes_by_its_source_and_one_source_cannot_have_both(tmp_path: Path) -> None:
    (secret := tmp_path / "password").write_text("from the file")
    (properties := tmp_path / "client.properties").write_text(f"sasl.password.file={secret}\n")
    environ = {"FIRSTSEEN_KAFKA__SASL_PASSWORD": "from the environment"}
    loaded = load(*NO_PASSWORD, environ=environ, kafka_config=properties)
    problems = problems_of(*SASL, f"kafka.sasl.password.file={secret}")
    assert loaded.settings.kafka["sasl.password"] == "from the environment"
    assert "choose one" in problems["kafka.sasl.password.file"].message


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "No such file"),
        (b"", "empty"),
        (b"\n", "empty"),
        (b"\xff", "not UTF-8"),
        (b"x" * 70_000, "more than"),
        (b"a\0b", "not text"),
    ],
)
def test_a_refused_file_is_not_named(tmp_path: Path, content: bytes | None, says: str) -> None:
    """The path may be the secret itself, if the user chose the wrong property."""
    secret = tmp_path / "hush"
    if content is not None:
        secret.write_bytes(content)
    problems = problems_of(*NO_PASSWORD, f"kafka.sasl.password.file={secret}")
    assert says in problems["kafka.sasl.password.file"].message
    assert "hush" not in str(list(map(str, problems.values())))


# ---- The format of client.properties.


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("a=b", {"a": "b"}),
        ("a = b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b c", {"a": "b c"}),
        ("a=b=c:d", {"a": "b=c:d"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("  a=b \n", {"a": "b "}),
        ("# a=b\n! c=d\n\n\t\n", {}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=one \\\n   two\\\n\tthree", {"a": "one twothree"}),
        ("a=x\\\\\nb=y", {"a": "x\\", "b": "y"}),
        ("a=x\\\n# no comment", {"a": "x# no comment"}),
        ("a=\\\n\nb=1", {"a": "", "b": "1"}),
        ("a\\=b\\ c=d", {"a=b c": "d"}),
        ("a=\\u96ea\\t\\n\\q", {"a": "雪\t\nq"}),
        ("密码=雪", {"密码": "雪"}),
        ("a=end\\", {"a": "end"}),
    ],
)
def test_entries_are_read_as_java_reads_them(text: str, entries: dict[str, str]) -> None:
    assert parse_properties(text) == entries


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a=1\n=2", "line 2"),
        ("a=1\n\\\nb=1\na=2", "line 4"),
        ("a=1\na=x\\\ny", "line 2"),
        ("a=1\nb=\\u12", "line 2"),
    ],
)
def test_a_mistake_is_told_with_its_line(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_properties(text)


def utf16(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def escaped(text: str) -> str:
    units = utf16(text)
    return "".join(f"\\u{units[i] << 8 | units[i + 1]:04x}" for i in range(0, len(units), 2))


@given(st.text(), st.text())
def test_whatever_is_escaped_is_read_unchanged(name: str, value: str) -> None:
    (entry,) = parse_properties(f"n{escaped(name)}={escaped(value)}").items()
    assert [utf16(part) for part in entry] == [utf16(f"n{name}"), utf16(value)]


@given(st.text(alphabet=st.sampled_from("ab=: \t\\\n\r#!u0"), max_size=40))
def test_any_text_is_entries_or_a_value_error(text: str) -> None:
    try:
        entries = parse_properties(text)
    except ValueError:
        return
    assert all(entries)
