"""The settings of the schema registry: what they must be together; its password is never shown."""

from __future__ import annotations

import pytest

from streams.settings import registry
from streams.settings.reference import rows, text_rows
from streams.worker.index_on_kafka import reading_rules
from tests.unit.settings.sources import load, problems_of, settings_of

URL = "registry.url=http://registry:8081"
AVRO = "fields.format=avro"
TOKENS = "registry.oauth_token_url=https://idp/token"
PASSWORD = "not-for-the-log"  # noqa: S105 - a test's
OAUTH = [
    TOKENS,
    "registry.oauth_client_id=worker",
    f"registry.oauth_client_secret={PASSWORD}",
]


@pytest.mark.parametrize("value_format", ["avro", "protobuf", "json-schema"])
def test_a_format_with_its_registry(value_format: str) -> None:
    """Given a format that needs a registry, and one or several addresses, then that will do."""
    for url in ("http://a:8081", "https://a/registry, https://b"):
        settings = settings_of(f"fields.format={value_format}", f"registry.url={url}")
        assert settings.registry.url == url


@pytest.mark.parametrize(
    ("assignments", "setting", "says"),
    [
        ([AVRO], "registry.url", "must be given"),
        ([URL], "registry.url", "no effect"),
        (["fields.key_format=protobuf"], "registry.url", "fields.key_format is protobuf"),
        ([URL, "fields.format=json"], "registry.url", "no effect"),
        ([AVRO, "registry.url=registry:8081"], "registry.url", "http://"),
        ([AVRO, "registry.url=http://"], "registry.url", "host"),
        ([AVRO, "registry.url=http://a, b:1"], "registry.url", "http://"),
        ([AVRO, "registry.url=http://a:b@c"], "registry.url", "registry.username"),
        ([AVRO, URL, "registry.username=a"], "registry.username", "password"),
        ([AVRO, URL, f"registry.password={PASSWORD}"], "registry.username", "a password a user"),
        (
            [AVRO, URL, "registry.username=a:b", f"registry.password={PASSWORD}"],
            "registry.username",
            "no colon",
        ),
        (
            [
                *(AVRO, URL, "registry.username=a"),
                *(f"registry.password={PASSWORD}", "registry.password_file=b"),
            ],
            "registry.password_file",
            "choose one",
        ),
        (
            [AVRO, URL, "registry.certificate_file=/dev/null"],
            "registry.certificate_file",
            "registry.key_file",
        ),
        ([AVRO, URL, "registry.ca_file=/no/such"], "registry.ca_file", "no such file"),
        ([AVRO, URL, "registry.oauth_scope=a"], "registry.oauth_scope", "no effect"),
        ([AVRO, URL, TOKENS], "registry.oauth_client_id", "must be given"),
        ([AVRO, URL, TOKENS], "registry.oauth_client_secret", "must be given"),
        ([AVRO, URL, f"{TOKENS},http://b"], "registry.oauth_token_url", "one URL"),
        ([AVRO, URL, "registry.oauth_token_url=idp/token"], "registry.oauth_token_url", "http://"),
        (
            [AVRO, URL, *OAUTH, "registry.username=a", "registry.password=b"],
            "registry.username",
            "choose one",
        ),
        (
            [AVRO, URL, *OAUTH, "registry.oauth_client_secret_file=a"],
            "registry.oauth_client_secret_file",
            "choose one",
        ),
    ],
)
def test_what_does_not_fit(assignments: list[str], setting: str, says: str) -> None:
    """Given settings that do not fit each other, then one problem says which and why."""
    problems = problems_of(*assignments)

    assert says in problems[setting].message
    assert PASSWORD not in str(problems)


def test_the_extra_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a format whose packages are not there, then it says how to install them."""
    monkeypatch.setattr(registry, "find_spec", lambda name: None if name == "fastavro" else name)

    message = problems_of(AVRO, URL)["fields.format"].message

    assert "fastavro" in message
    assert "pip install 'firstseen[registry]'" in message


@pytest.mark.parametrize(
    ("assignments", "name"),
    [
        (["registry.username=a", f"registry.password={PASSWORD}"], "password"),
        (OAUTH, "oauth_client_secret"),
    ],
)
def test_a_secret_is_never_shown(assignments: list[str], name: str) -> None:
    """Given a secret, then no row, no text and no repr of the settings has it."""
    loaded = load(AVRO, URL, *assignments)

    shown = [rows(loaded), text_rows(loaded), loaded.settings, loaded.settings.registry]
    assert PASSWORD not in repr(shown)
    assert getattr(loaded.settings.registry, name) == PASSWORD


def test_rules_of_reading() -> None:
    """Given a format with schemas, then it is among the rules that an index compares, and so is
    whether JSON Schemas are checked; where the registry is, is not: it may move.
    """
    plain = reading_rules(settings_of())
    avro = reading_rules(settings_of(AVRO, URL))
    elsewhere = reading_rules(settings_of(AVRO, "registry.url=http://b", "registry.validate=false"))
    checked = reading_rules(settings_of("fields.format=json-schema", URL))
    unchecked = reading_rules(
        settings_of("fields.format=json-schema", URL, "registry.validate=false")
    )

    keyed = reading_rules(settings_of("fields.key_format=avro", URL))
    assert avro == elsewhere
    assert set(keyed.split("\n")) - set(plain.split("\n")) == {
        "fields.key_format=avro",
        "schema_reader=1",
    }
    assert "key_format" not in plain  # indexes are older than the setting
    assert set(avro.split("\n")) - set(plain.split("\n")) == {
        "fields.format=avro",
        "schema_reader=1",
    }
    assert set(checked.split("\n")) - set(unchecked.split("\n")) == {"registry.validate=true"}
