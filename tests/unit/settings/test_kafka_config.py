"""What each Kafka client gets of the settings, and that it connects with that."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.errors import BrokerUnavailableError, SettingsError
from streams.kafka.client_config import producer_config
from streams.kafka.connection import connect_admin
from streams.settings.settings import Settings
from streams.topics.plans import topic_plans
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.rigs.brokers.kafka_configuration import protocols, tls
from tests.unit.settings.certificates import KEY_PASSWORD, Certificates, make_certificates
from tests.unit.settings.sources import load, settings_of

USER, PASSWORD = "lu", "p=a s#s"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def test_a_client_gets_its_own_properties_before_those_passed_on() -> None:
    def error_cb(error: object) -> None:
        raise AssertionError(error)

    settings = settings_of("brokers=a:1", "kafka.linger.ms=7", "kafka.socket.timeout.ms=999")
    config = producer_config(settings, batch_size=5, socket_timeout_ms=10, error_cb=error_cb)
    assert config["bootstrap.servers"] == "a:1"
    assert config["client.id"] == "firstseen"
    assert config["batch.size"] == 5
    assert (config["linger.ms"], config["socket.timeout.ms"]) == ("7", 10)
    assert config["error_cb"] is error_cb


@pytest.mark.parametrize(
    "assignments",
    [
        ["max_record_bytes=1024"],
        ["max_record_bytes=67108864", "include_body=true"],
        ["batch.documents=1", "batch.bundles=1"],
        ["kafka.batch.size=5000000"],
    ],
)
def test_producers_and_topics_take_the_largest_record_that_is_sent(assignments: list[str]) -> None:
    settings = settings_of(*assignments)
    topics = settings.topics
    assert producer_config(settings)["message.max.bytes"] == settings.largest_message_bytes
    assert settings.largest_message_bytes > settings.max_record_bytes
    for plan in topic_plans(settings, 4):
        if plan.name == topics.raw:
            continue
        internal = plan.name in {topics.log, topics.reports, topics.changelog}
        largest = settings.largest_internal_bytes if internal else settings.largest_output_bytes
        batch = int(settings.kafka.get("batch.size", 1_000_000))
        assert plan.min_message_bytes == int(plan.config["max.message.bytes"]) > max(largest, batch)


@pytest.mark.parametrize("password", [[], ["kafka.ssl.key.password=wrong"]])
def test_no_password_of_a_key_is_asked_for(certificates: Certificates, password: list[str]) -> None:
    with pytest.raises(SettingsError, match=r"kafka"):
        load(
            "kafka.security.protocol=SSL",
            f"kafka.ssl.ca.location={certificates.authority}",
            f"kafka.ssl.certificate.location={certificates.client}",
            f"kafka.ssl.key.location={certificates.client_key}",
            *password,
        )


@pytest.mark.parametrize("address", ["127.0.0.1:1", "no-such-host.invalid:9092"])
def test_an_address_without_a_broker_is_told_with_wait_and_reason(address: str) -> None:
    with pytest.raises(BrokerUnavailableError, match=r"answered within 1\.5 s") as caught:
        connect_admin(settings_of(f"brokers={address}"), 1.5)
    assert f"at {address}" in str(caught.value)
    assert "refused" in str(caught.value) or "resolve" in str(caught.value)


def assert_reached(settings: Settings) -> None:
    assert len(connect_admin(settings, 10.0).list_topics(timeout=60.0).brokers) == 1


@pytest.mark.usefixtures("kafka_required")
@pytest.mark.kafka
def test_a_broker_with_tls_and_login_is_reached(certificates: Certificates, tmp_path: Path) -> None:
    """With the key as PEM files and as a PKCS#12 store, and not with a wrong password."""
    properties = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
        "ssl.truststore.location": str(certificates.authority),
    }
    key_files = {
        "ssl.certificate.location": str(certificates.client),
        "ssl.key.location": str(certificates.client_key),
        "ssl.key.password": KEY_PASSWORD,
    }
    store = {
        "ssl.keystore.location": str(certificates.client_store),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.password": KEY_PASSWORD,
    }
    login = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{USER}" password="{PASSWORD}" user_{USER}="{PASSWORD}";'
    )
    own = {
        "ssl.ca.location": str(certificates.authority),
        **{name: value for name, value in properties.items() if "truststore" not in name},
        **key_files,
    }
    with KafkaBroker(
        tmp_path / "kafka",
        properties={
            **protocols(PLAINTEXT="SASL_SSL"),
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.plaintext.plain.sasl.jaas.config": login,
            "ssl.client.auth": "required",
            **tls(certificates.server, certificates.authority),
        },
        client_settings=own,
    ) as broker:
        path = tmp_path / "client.properties"
        for key in (key_files, store):
            path.write_text(
                f"bootstrap.servers={broker.bootstrap_servers}\n"
                + "".join(f"{name}={value}\n" for name, value in (properties | key).items())
            )
            assert_reached(load(kafka_config=path).settings)

        wrong = load("kafka.sasl.password=wrong", kafka_config=path).settings
        with pytest.raises(SettingsError, match=r"kafka\.sasl\.password .*(?i:authentication)"):
            connect_admin(wrong, 10.0)


@pytest.mark.usefixtures("kafka_required")
@pytest.mark.kafka
def test_a_broker_that_takes_tokens(tmp_path: Path) -> None:
    """Unsigned ones: there is no server here that signs them."""
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    own = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": "principal=lu",
    }
    with KafkaBroker(
        tmp_path / "kafka",
        properties={
            **protocols(PLAINTEXT="SASL_PLAINTEXT"),
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
            "listener.name.plaintext.oauthbearer.sasl.jaas.config": (
                f'{module} unsecuredLoginStringClaim_sub="broker";'
            ),
        },
        client_settings=own,
    ) as broker:
        assignments = [f"kafka.{name}={value}" for name, value in own.items()]
        assert_reached(settings_of(f"brokers={broker.bootstrap_servers}", *assignments))
