"""What the registry answers, and what is made of it: a schema, "there is none", or "no answer"."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from streams.documents.schema_framing import SchemaId
from streams.errors import RegistryRefusedError, SettingsError
from streams.registry.registry_client import RegistryClient
from streams.registry.schemas import (
    FetchedSchema,
    Reference,
    RegistryUnavailableError,
    UnknownSchemaError,
)
from streams.settings.registry import RegistrySettings
from tests.rigs.registry.schema_registry import SchemaRegistry
from tests.unit.settings.certificates import make_certificates

PASSWORD = "worker:let me in"  # noqa: S105 - of a registry of this test
OAUTH_CLIENT = "worker:its secret"
WRONG_SECRET = "another secret"  # noqa: S105 - of a registry of this test
GUID = "00000000-0000-0000-0000-000000000001"


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as opened:
        yield opened


def fetched(
    settings: RegistrySettings, schema: SchemaId, value_format: str = "avro"
) -> FetchedSchema:
    with closing(RegistryClient(settings, value_format)) as client:
        return client.fetch(schema)


def by_number(number: int) -> SchemaId:
    return SchemaId(number, "")


def test_schema_is_fetched_by_number_and_by_guid(registry: SchemaRegistry) -> None:
    made = registry.register("a", {"schema": '"string"'})
    settings = RegistrySettings(url=registry.url)
    assert fetched(settings, by_number(made.number)) == FetchedSchema("AVRO", '"string"')
    assert fetched(settings, SchemaId(None, made.guid)) == FetchedSchema("AVRO", '"string"')


def test_references_come_once_and_before_what_refers_to_them(registry: SchemaRegistry) -> None:
    registry.register("low", {"schema": '"low"'})
    low = {"name": "low", "subject": "low", "version": 1}
    registry.register("middle", {"schema": '"middle"', "references": [low]})
    middle = {"name": "middle", "subject": "middle", "version": 1}
    top = registry.register("top", {"schema": '"top"', "references": [middle, low]})
    found = fetched(RegistrySettings(url=registry.url), by_number(top.number))
    assert found.references == (Reference("low", '"low"'), Reference("middle", '"middle"'))


@pytest.mark.parametrize(
    "schema",
    [by_number(999), by_number(2**31), by_number(2**32 - 1), by_number(0), SchemaId(None, GUID)],
    ids=str,
)
def test_unknown_or_unreadable_id_is_an_unknown_schema(
    registry: SchemaRegistry, schema: SchemaId
) -> None:
    with pytest.raises(UnknownSchemaError):
        fetched(RegistrySettings(url=registry.url), schema)


def test_schema_with_a_missing_reference_is_unknown(registry: SchemaRegistry) -> None:
    gone = {"name": "gone", "subject": "gone", "version": 3}
    made = registry.register("a", {"schema": '"string"', "references": [gone]})
    with pytest.raises(UnknownSchemaError):
        fetched(RegistrySettings(url=registry.url), by_number(made.number))


@pytest.mark.parametrize("status", [404, 408, 429, 500, 502, 503])
def test_errors_of_a_server_are_no_answer(registry: SchemaRegistry, status: int) -> None:
    made = registry.register("a", {"schema": '"string"'})
    registry.broken = status
    with pytest.raises(RegistryUnavailableError, match=str(status)):
        fetched(RegistrySettings(url=registry.url), by_number(made.number))


@pytest.mark.parametrize("status", [401, 403, 407])
def test_refused_user_is_told_the_settings_of_access(registry: SchemaRegistry, status: int) -> None:
    made = registry.register("a", {"schema": '"string"'})
    registry.broken = status
    with pytest.raises(RegistryRefusedError, match=rf"HTTP {status}.*registry\.username"):
        fetched(RegistrySettings(url=registry.url), by_number(made.number))


def test_closed_port_is_no_answer_until_the_registry_is_back(registry: SchemaRegistry) -> None:
    made = registry.register("a", {"schema": '"string"'})
    settings = RegistrySettings(url=registry.url)
    registry.close()
    with closing(RegistryClient(settings, "avro")) as client:
        with pytest.raises(RegistryUnavailableError):
            client.fetch(by_number(made.number))
        registry.open()
        assert client.fetch(by_number(made.number)).text == '"string"'


def test_password_of_a_file_is_sent_and_a_wrong_one_is_refused(
    registry: SchemaRegistry, tmp_path: Path
) -> None:
    registry.password = PASSWORD
    made = registry.register("a", {"schema": '"string"'})
    user, _, password = PASSWORD.partition(":")
    file = tmp_path / "password"
    file.write_text(f"{password}\n")
    by_file = RegistrySettings(url=registry.url, username=user, password_file=str(file))
    wrong = RegistrySettings(url=registry.url, username=user, password="wrong")  # noqa: S106
    assert fetched(by_file, by_number(made.number)).text == '"string"'
    with pytest.raises(RegistryRefusedError, match="401"):
        fetched(wrong, by_number(made.number))


def oauth(registry: SchemaRegistry) -> RegistrySettings:
    """Settings of a client that the registry's identity provider knows."""
    registry.oauth_client = OAUTH_CLIENT
    client, _, secret = OAUTH_CLIENT.partition(":")
    return RegistrySettings(
        url=registry.url,
        oauth_token_url=registry.token_url,
        oauth_client_id=client,
        oauth_client_secret=secret,
        oauth_scope="schemas",
    )


def test_oauth_token_is_used_until_a_minute_before_its_end(registry: SchemaRegistry) -> None:
    made = registry.register("a", {"schema": '"string"'})
    settings = oauth(registry)
    with closing(RegistryClient(settings, "avro")) as client:
        for _ in range(3):
            assert client.fetch(by_number(made.number)).text == '"string"'
        (asked,) = registry.token_requests
        assert asked == {"grant_type": "client_credentials", "scope": "schemas"}
    registry.token_seconds = 30
    with closing(RegistryClient(settings, "avro")) as client:
        client.fetch(by_number(made.number))
        client.fetch(by_number(made.number))
    assert len(registry.token_requests) == 3


def test_revoked_oauth_token_is_replaced_after_one_refusal(registry: SchemaRegistry) -> None:
    made = registry.register("a", {"schema": '"string"'})
    with closing(RegistryClient(oauth(registry), "avro")) as client:
        client.fetch(by_number(made.number))
        registry.token_requests.append({})  # so the token of before is an old one
        with pytest.raises(RegistryRefusedError):
            client.fetch(by_number(made.number))
        assert client.fetch(by_number(made.number)).text == '"string"'


def test_identity_provider_that_refuses_or_is_away(registry: SchemaRegistry) -> None:
    made = registry.register("a", {"schema": '"string"'})
    settings = oauth(registry)
    with pytest.raises(RegistryRefusedError, match=r"invalid_client") as caught:
        fetched(replace(settings, oauth_client_secret=WRONG_SECRET), by_number(made.number))
    assert WRONG_SECRET not in str(caught.value)
    for url in ("http://127.0.0.1:1/token", f"{registry.url}/schemas/types"):
        with pytest.raises(RegistryUnavailableError, match="no token"):
            fetched(replace(settings, oauth_token_url=url), by_number(made.number))


def test_https_needs_the_right_authority_and_a_client_certificate(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(made.authority))
    tls.load_cert_chain(made.server)
    tls.verify_mode = ssl.CERT_REQUIRED
    with SchemaRegistry(tls=tls) as registry:
        schema = by_number(registry.register("a", {"schema": '"string"'}).number)
        key = str(tmp_path / "client.key")
        right = RegistrySettings(
            url=registry.url,
            ca_file=str(made.authority),
            certificate_file=str(made.client),
            key_file=key,
        )
        other = replace(right, ca_file=str(made.other_authority))
        without = replace(right, certificate_file=None, key_file=None)

        assert fetched(right, schema).text == '"string"'
        for settings in (other, without):
            with pytest.raises(RegistryUnavailableError):
                fetched(settings, schema)


def test_second_address_is_asked_where_the_first_is_silent(registry: SchemaRegistry) -> None:
    made = registry.register("a", {"schema": '"string"'})
    settings = RegistrySettings(url=f"http://127.0.0.1:1, {registry.url}")
    assert fetched(settings, by_number(made.number)).text == '"string"'


def test_unusable_files_in_settings_are_refused_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("no certificate")
    for settings in (
        RegistrySettings(url="https://127.0.0.1:1", ca_file=str(file)),
        RegistrySettings(url="http://127.0.0.1:1", username="a", password_file=str(tmp_path / "x")),
    ):
        with pytest.raises(SettingsError):
            RegistryClient(settings, "avro")


def test_client_keeps_no_schemas(registry: SchemaRegistry) -> None:
    """The client library's own caches have no limit."""
    made = registry.register("a", {"schema": json.dumps({"type": "string"})})
    with closing(RegistryClient(RegistrySettings(url=registry.url), "avro")) as client:
        client.fetch(by_number(made.number))
        client.fetch(by_number(made.number))
    assert registry.asked[f"GET /schemas/ids/{made.number}"] == 2
