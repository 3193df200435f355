"""What each Kafka client gets of the settings, and that it connects with that."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import faust
import pytest
from aiokafka.conn import create_conn
from faust.transport.drivers.aiokafka import credentials_to_aiokafka_auth

from streams.broker_connection import connect_admin
from streams.errors import BrokerUnavailableError, SettingsError
from streams.kafka_config import faust_brokers, faust_credentials, librdkafka_config
from streams.kafka_security import security_of
from streams.settings import Settings
from streams.topic_plans import topic_plans
from tests.brokers.kafka_broker import KafkaBroker
from tests.settings.certificates import KEY_PASSWORD, Certificates, make_certificates
from tests.settings.sources import load, settings_of

USER, PASSWORD = "lu", "p=a s#s"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates for this module."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def tls_properties(certificates: Certificates, **others: str) -> dict[str, str]:
    """Properties that trust the authority; `others` with underscores for dots."""
    return {
        "security.protocol": "SSL",
        "ssl.ca.location": str(certificates.authority),
        **{name.replace("_", "."): value for name, value in others.items()},
    }


def test_librdkafka_gets_everything() -> None:
    """Given passed-on properties and what a client must have, then it gets both, the second first
    where they meet; underscores of names stand for dots, save in callbacks.
    """

    def error_cb(error: object) -> None:
        raise AssertionError(error)

    settings = settings_of("brokers=a:1", "kafka.linger.ms=7", "kafka.socket.timeout.ms=999")
    config = librdkafka_config(settings, group_id="g", socket_timeout_ms=10, error_cb=error_cb)

    assert config["bootstrap.servers"] == "a:1"
    assert config["client.id"] == "firstseen"
    assert config["group.id"] == "g"
    assert (config["linger.ms"], config["socket.timeout.ms"]) == ("7", 10)
    assert config["error_cb"] is error_cb


def test_messages_fit_producers_and_topics() -> None:
    """Given any limit of a raw record, then what a producer may send is more than that, and what
    the topics take is more still.
    """
    for assignment in ("max_record_bytes=1024", "max_record_bytes=67108864"):
        settings = settings_of(assignment)
        sendable = librdkafka_config(settings)["message.max.bytes"]
        assert sendable > settings.max_record_bytes
        for plan in topic_plans(settings, 4):
            if plan.name != settings.topics.raw:
                assert int(plan.config["max.message.bytes"]) > sendable


def test_faust_without_security() -> None:
    """Given no security, then Faust gets the brokers and no credentials."""
    settings = settings_of("brokers=a:1,b:2")

    assert faust_brokers(settings) == ["kafka://a:1", "kafka://b:2"]
    assert faust_credentials(settings) is None


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "sasl_ssl"])
def test_faust_with_a_password(protocol: str) -> None:
    """Given SASL, then Faust gets mechanism, user and password, and TLS where that is meant."""
    credentials = faust_credentials(
        settings_of(
            f"kafka.security.protocol={protocol}",
            "kafka.sasl.mechanism=scram-sha-256",
            f"kafka.sasl.username={USER}",
            f"kafka.sasl.password={PASSWORD}",
        )
    )

    assert isinstance(credentials, faust.SASLCredentials)
    assert (credentials.username, credentials.password) == (USER, PASSWORD)
    assert credentials.mechanism.value == "SCRAM-SHA-256"
    assert credentials.protocol.value == protocol.upper()


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, hostname: str) -> None:
    """Connect two contexts in memory; raises ssl.SSLError where they do not agree."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=hostname),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(10):
        for end in list(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            ends.remove(end)
        if not ends:
            return
    raise AssertionError("the handshake does not end")


def server_context(certificates: Certificates) -> ssl.SSLContext:
    """A server that demands a certificate of the authority."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificates.authority)
    context.load_cert_chain(certificates.server)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(properties: dict[str, str]) -> ssl.SSLContext:
    """What Faust's consumer gets for properties."""
    context = security_of(properties).tls
    assert context is not None
    return context


def test_certificates_are_checked_and_shown(certificates: Certificates) -> None:
    """Given a client certificate with an encrypted key, when both sides demand certificates, then
    they agree; the server's is not taken from another authority, nor for another host, unless
    that check is turned off.
    """
    own = tls_properties(
        certificates,
        ssl_certificate_location=str(certificates.client),
        ssl_key_location=str(certificates.client_key),
        ssl_key_password=KEY_PASSWORD,
    )
    server = server_context(certificates)

    handshake(server, client_context(own), "127.0.0.1")
    stranger = client_context({**own, "ssl.ca.location": str(certificates.other_authority)})
    with pytest.raises(ssl.SSLCertVerificationError, match=r"self-signed|unable to get"):
        handshake(server, stranger, "127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError, match="not valid for"):
        handshake(server, client_context(own), "127.0.0.2")
    unchecked = client_context({**own, "ssl.endpoint.identification.algorithm": "none"})
    handshake(server, unchecked, "127.0.0.2")
    blind = {**own, "enable.ssl.certificate.verification": "false"}
    blind["ssl.ca.location"] = str(certificates.other_authority)
    handshake(server, client_context(blind), "127.0.0.2")
    with pytest.raises(ssl.SSLError, match=r"(?i)certificate.required|peer did not return"):
        handshake(server, client_context(tls_properties(certificates)), "127.0.0.1")


def test_an_authority_in_the_settings_themselves(certificates: Certificates) -> None:
    """Given the authority as text, not as a file, then it is trusted."""
    properties = {"security.protocol": "SSL", "ssl.ca.pem": certificates.authority.read_text()}

    assert client_context(properties).get_ca_certs()[0]["subject"] == ((("commonName", "ca"),),)


@pytest.mark.parametrize("password", [{}, {"ssl_key_password": "wrong"}])
def test_a_key_that_cannot_be_opened(certificates: Certificates, password: dict[str, str]) -> None:
    """Given an encrypted key and no password, or a wrong one, then that is an error of the
    configuration; nobody is asked for it on the terminal.
    """
    properties = tls_properties(
        certificates,
        ssl_certificate_location=str(certificates.client),
        ssl_key_location=str(certificates.client_key),
        **password,
    )

    with pytest.raises(SettingsError, match=r"kafka"):
        load(*(f"kafka.{name}={value}" for name, value in properties.items()))
    with pytest.raises(SettingsError, match="cannot be used"):
        faust_credentials(Settings(kafka=properties))


@pytest.mark.parametrize("address", ["127.0.0.1:1", "no-such-host.invalid:9092"])
def test_no_broker(address: str) -> None:
    """Given an address where no broker is, then the wait ends, and the error tells address, wait
    and reason.
    """
    with pytest.raises(BrokerUnavailableError, match=r"answered within 1\.5 s") as caught:
        connect_admin(settings_of(f"brokers={address}"), 1.5)

    assert f"at {address}" in str(caught.value)
    assert "refused" in str(caught.value) or "resolve" in str(caught.value)


@pytest.mark.usefixtures("kafka_required")
@pytest.mark.kafka
def test_both_clients_reach_a_secured_broker(certificates: Certificates, tmp_path: Path) -> None:
    """Given a real broker that demands TLS, a client certificate and a password, and a
    client.properties for it, when both clients connect with what they are given, then they are let
    in; with a wrong password, nobody is.
    """
    properties = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
        "ssl.truststore.location": str(certificates.authority),
        "ssl.certificate.location": str(certificates.client),
        "ssl.key.location": str(certificates.client_key),
        "ssl.key.password": KEY_PASSWORD,
    }
    login = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{USER}" password="{PASSWORD}" user_{USER}="{PASSWORD}";'
    )
    own = {
        "ssl.ca.location": str(certificates.authority),
        **{name: value for name, value in properties.items() if "truststore" not in name},
    }
    with KafkaBroker(
        tmp_path / "kafka",
        properties={
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_SSL",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.plaintext.plain.sasl.jaas.config": login,
            "ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(certificates.server),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certificates.authority),
        },
        client_settings=own,
    ) as broker:
        path = tmp_path / "client.properties"
        path.write_text(
            f"bootstrap.servers={broker.bootstrap_servers}\n"
            + "".join(f"{name}={value}\n" for name, value in properties.items())
        )
        settings = load(kafka_config=path).settings

        admin = connect_admin(settings, 10.0)
        assert len(admin.list_topics(timeout=60.0).brokers) == 1
        assert asyncio.run(aiokafka_connects(settings))

        wrong = load("kafka.sasl.password=wrong", kafka_config=path).settings
        with pytest.raises(SettingsError, match=r"kafka\.sasl\.password .*(?i:authentication)"):
            connect_admin(wrong, 10.0)


async def aiokafka_connects(settings: Settings) -> bool:
    """Connect as Faust's consumer does, with Faust's credentials, as far as the log-in."""
    host, _, port = settings.brokers.partition(":")
    auth = credentials_to_aiokafka_auth(faust_credentials(settings))
    connection = await create_conn(host, int(port), **auth)
    connected: bool = connection.connected()
    await connection.close()
    return connected
