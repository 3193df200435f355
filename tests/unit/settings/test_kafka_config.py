"""The properties that each Kafka client gets from the settings; it connects with them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from streams.errors import BrokerUnavailableError, SettingsError
from streams.kafka.client_config import client_config
from streams.kafka.connection import connect_admin
from streams.settings.settings import Settings
from streams.topics.plans import topic_plans
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.rigs.brokers.kafka_configuration import protocols
from tests.unit.settings.certificates import KEY_PASSWORD, Certificates, make_certificates
from tests.unit.settings.sources import load, settings_of


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


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
    assert client_config(settings)["message.max.bytes"] == settings.largest_message_bytes
    assert settings.largest_message_bytes > settings.max_record_bytes
    for plan in topic_plans(settings, 4):
        if plan.name == topics.raw:
            continue
        internal = plan.name in {topics.log, topics.reports, topics.changelog}
        largest = settings.largest_internal_bytes if internal else settings.largest_output_bytes
        batch = int(settings.kafka.get("batch.size", 1_000_000))
        assert int(plan.config["max.message.bytes"]) > max(largest, batch)


def test_keys_are_opened_with_the_given_password_and_none_is_asked_for(
    certificates: Certificates, tmp_path: Path
) -> None:
    """The type of a store counts, and not its name."""
    tls = ("kafka.security.protocol=SSL", f"kafka.ssl.ca.location={certificates.authority}")
    pem = (
        f"kafka.ssl.certificate.location={certificates.client}",
        f"kafka.ssl.key.location={certificates.client_key}",
    )
    store = (
        f"kafka.ssl.keystore.location={shutil.copy(certificates.client_store, tmp_path / 'a.jks')}",
        "kafka.ssl.keystore.type=PKCS12",
    )
    for key, password in ((pem, "ssl.key.password"), (store, "ssl.keystore.password")):
        assert load(*tls, *key, f"kafka.{password}={KEY_PASSWORD}").settings.kafka[password]
        for wrong in ((), (f"kafka.{password}=wrong",)):
            with pytest.raises(SettingsError, match=r"kafka"):
                load(*tls, *key, *wrong)


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
def test_a_broker_that_takes_tokens(tmp_path: Path) -> None:
    """The tokens are unsigned, because no server here signs them."""
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
