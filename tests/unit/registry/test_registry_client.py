"""The registry's answers become a schema, an unknown schema, no answer, or a refused user."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

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


@pytest.fixture
def schema(registry: SchemaRegistry) -> SchemaId:
    return registered(registry)


def registered(registry: SchemaRegistry, text: str = '"string"', **more: object) -> SchemaId:
    return by_number(registry.register("a", {"schema": text, **more}).number)


def by_number(number: int) -> SchemaId:
    return SchemaId(number, "")


def connected(registry: SchemaRegistry, **settings: Any) -> closing[RegistryClient]:  # noqa: ANN401
    return closing(RegistryClient(RegistrySettings(**{"url": registry.url} | settings), "avro"))


def fetched(
    registry: SchemaRegistry, schema: SchemaId, **settings: str | float | None
) -> FetchedSchema:
    with connected(registry, **settings) as client:
        return client.fetch(schema)


def test_schema_is_fetched_by_number_and_by_guid_and_not_kept(registry: SchemaRegistry) -> None:
    """It is not kept in the client library's own caches, because these have no limit."""
    made = registry.register("a", {"schema": '"string"'})
    with connected(registry) as client:
        for schema in (by_number(made.number), by_number(made.number), SchemaId(None, made.guid)):
            assert client.fetch(schema) == FetchedSchema("AVRO", '"string"')
    assert registry.asked[f"GET /schemas/ids/{made.number}"] == 2


def test_references_come_once_and_before_what_refers_to_them(registry: SchemaRegistry) -> None:
    registry.register("low", {"schema": '"low"'})
    low = {"name": "low", "subject": "low", "version": 1}
    registry.register("middle", {"schema": '"middle"', "references": [low]})
    middle = {"name": "middle", "subject": "middle", "version": 1}
    found = fetched(registry, registered(registry, '"top"', references=[middle, low]))
    assert found.references == (Reference("low", '"low"'), Reference("middle", '"middle"'))


def test_unreadable_ids_and_missing_references_are_unknown_schemas(
    registry: SchemaRegistry,
) -> None:
    numbers = (999, 2**31, 2**32 - 1, 0)
    gone = {"name": "gone", "subject": "gone", "version": 3}
    with_gone = registered(registry, references=[gone])
    for unknown in (*map(by_number, numbers), SchemaId(None, GUID), with_gone):
        with pytest.raises(UnknownSchemaError):
            pytest.fail(f"{unknown} is {fetched(registry, unknown)}")


def test_a_chain_of_references_has_a_limit(registry: SchemaRegistry) -> None:
    below: list[dict[str, object]] = []
    for number in range(102):
        registry.register(f"s{number}", {"schema": '"int"', "references": below})
        below = [{"name": f"s{number}", "subject": f"s{number}", "version": 1}]
        if number == 99:
            assert len(fetched(registry, registered(registry, references=below)).references) == 100
    with pytest.raises(UnknownSchemaError, match="more than 100 deep"):
        fetched(registry, registered(registry, references=below))


@pytest.mark.parametrize(
    ("error", "statuses", "message"),
    [
        (RegistryUnavailableError, (404, 408, 429, 500, 502, 503), "{}"),
        (RegistryRefusedError, (401, 403, 407), r"HTTP {}.*registry\.username"),
    ],
)
def test_server_errors_are_no_answer_and_a_refused_user_is_told_settings(
    registry: SchemaRegistry,
    schema: SchemaId,
    error: type[Exception],
    statuses: tuple[int, ...],
    message: str,
) -> None:
    for status in statuses:
        registry.broken = status
        with pytest.raises(error, match=message.format(status)):
            fetched(registry, schema)


def test_answer_that_comes_byte_by_byte_has_the_same_time_limit(
    registry: SchemaRegistry, schema: SchemaId
) -> None:
    registry.pause = 0.05  # so it would take 5 seconds
    began = time.monotonic()
    with pytest.raises(RegistryUnavailableError, match=r"no whole answer within 0\.3 s"):
        fetched(registry, schema, timeout_seconds=0.3)
    assert time.monotonic() - began < 2.0
    registry.pause = 0.0
    assert fetched(registry, schema, timeout_seconds=0.3).text == '"string"'


@pytest.mark.parametrize("referring", [False, True])
@pytest.mark.parametrize("body", [{"status": "ok"}, {"schema": None}, {"schema": 5}])
def test_json_without_a_schema_is_no_answer(
    registry: SchemaRegistry, body: dict[str, object], *, referring: bool
) -> None:
    """A proxy or a page for maintenance may answer with status 200; that says nothing of schemas.

    As a schema that cannot be used, it would turn all records into dead letters.
    """
    schema = wrong = registered(registry)
    if referring:
        reference = {"name": "a", "subject": "a", "version": 1}
        schema = registered(registry, '"top"', references=[reference])
    assert wrong.number == 1
    registry.schemas[0].body.pop("schema")
    registry.schemas[0].body.update(body)
    with pytest.raises(RegistryUnavailableError, match="no schema"):
        fetched(registry, schema)


def test_closed_port_is_no_answer_until_reopened(
    registry: SchemaRegistry, schema: SchemaId
) -> None:
    registry.close()
    with connected(registry) as client:
        with pytest.raises(RegistryUnavailableError):
            client.fetch(schema)
        registry.open()
        assert client.fetch(schema).text == '"string"'


def test_password_of_a_file_is_sent_and_a_wrong_one_is_refused(
    registry: SchemaRegistry, schema: SchemaId, tmp_path: Path
) -> None:
    registry.password = PASSWORD
    user, _, password = PASSWORD.partition(":")
    file = tmp_path / "password"
    file.write_text(f"{password}\n")
    found = fetched(registry, schema, username=user, password_file=str(file))
    assert found.text == '"string"'
    with pytest.raises(RegistryRefusedError, match="401"):
        fetched(registry, schema, username=user, password="wrong")  # noqa: S106


@pytest.fixture
def oauth(registry: SchemaRegistry) -> dict[str, str]:
    registry.oauth_client = OAUTH_CLIENT
    client, _, secret = OAUTH_CLIENT.partition(":")
    return {
        "oauth_token_url": registry.token_url,
        "oauth_client_id": client,
        "oauth_client_secret": secret,
        "oauth_scope": "schemas",
    }


def test_oauth_token_is_used_until_a_minute_before_its_end(
    registry: SchemaRegistry, oauth: dict[str, str], schema: SchemaId
) -> None:
    with connected(registry, **oauth) as client:
        for _ in range(3):
            assert client.fetch(schema).text == '"string"'
        (asked,) = registry.token_requests
        assert asked == {"grant_type": "client_credentials", "scope": "schemas"}
    registry.token_seconds = 30
    with connected(registry, **oauth) as client:
        client.fetch(schema)
        client.fetch(schema)
    assert len(registry.token_requests) == 3


def test_revoked_oauth_token_is_replaced_after_one_refusal(
    registry: SchemaRegistry, oauth: dict[str, str], schema: SchemaId
) -> None:
    with connected(registry, **oauth) as client:
        client.fetch(schema)
        registry.token_requests.append({})  # so the previous token is an old one
        with pytest.raises(RegistryRefusedError):
            client.fetch(schema)
        assert client.fetch(schema).text == '"string"'


def test_identity_provider_that_refuses_or_is_away(
    registry: SchemaRegistry, oauth: dict[str, str], schema: SchemaId
) -> None:
    with pytest.raises(RegistryRefusedError, match=r"invalid_client") as caught:
        fetched(registry, schema, **oauth | {"oauth_client_secret": WRONG_SECRET})
    assert WRONG_SECRET not in str(caught.value)
    for url in ("http://127.0.0.1:1/token", f"{registry.url}/schemas/types"):
        with pytest.raises(RegistryUnavailableError, match="no token"):
            fetched(registry, schema, **oauth | {"oauth_token_url": url})


def test_https_needs_the_right_authority_and_a_client_certificate(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(made.authority))
    tls.load_cert_chain(made.server)
    tls.verify_mode = ssl.CERT_REQUIRED
    authority = {"ca_file": str(made.authority)}
    client = {"certificate_file": str(made.client), "key_file": str(tmp_path / "client.key")}
    with SchemaRegistry(tls=tls) as registry:
        schema = registered(registry)
        assert fetched(registry, schema, **authority, **client).text == '"string"'
        for wrong in (authority, client | {"ca_file": str(made.other_authority)}):
            with pytest.raises(RegistryUnavailableError):
                fetched(registry, schema, **wrong)


def test_second_address_is_asked_after_the_first(
    registry: SchemaRegistry, schema: SchemaId
) -> None:
    found = fetched(registry, schema, url=f"http://127.0.0.1:1, {registry.url}")
    assert found.text == '"string"'


def test_unusable_files_in_settings_are_refused_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("no certificate")
    for settings in (
        RegistrySettings(url="https://127.0.0.1:1", ca_file=str(file)),
        RegistrySettings(url="http://127.0.0.1:1", username="a", password_file=str(tmp_path / "x")),
    ):
        with pytest.raises(SettingsError):
            RegistryClient(settings, "avro")
