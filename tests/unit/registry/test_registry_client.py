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
    """A registry without schemas."""
    with SchemaRegistry() as opened:
        yield opened


def fetched(
    settings: RegistrySettings, schema: SchemaId, value_format: str = "avro"
) -> FetchedSchema:
    """What a client of its own fetches."""
    with closing(RegistryClient(settings, value_format)) as client:
        return client.fetch(schema)


def by_number(number: int) -> SchemaId:
    """The id of a schema by its number."""
    return SchemaId(number, "")


def test_a_schema_by_number_and_by_guid(registry: SchemaRegistry) -> None:
    """Given a registered schema, then it is fetched by either id."""
    made = registry.register("a", {"schema": '"string"'})
    settings = RegistrySettings(url=registry.url)

    assert fetched(settings, by_number(made.number)) == FetchedSchema("AVRO", '"string"')
    assert fetched(settings, SchemaId(None, made.guid)) == FetchedSchema("AVRO", '"string"')


def test_references_come_before_what_refers_to_them(registry: SchemaRegistry) -> None:
    """Given a schema that refers to one which refers to another, and to that one itself as well,
    then each comes once, and after what it refers to.
    """
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
def test_there_is_no_such_schema(registry: SchemaRegistry, schema: SchemaId) -> None:
    """Given an id that the registry does not have, or cannot even read, then it is unknown: a
    record with such an id must not stop the stream.
    """
    with pytest.raises(UnknownSchemaError):
        fetched(RegistrySettings(url=registry.url), schema)


def test_a_reference_that_is_gone(registry: SchemaRegistry) -> None:
    """Given a schema that refers to what the registry does not have, then it is unknown."""
    gone = {"name": "gone", "subject": "gone", "version": 3}
    made = registry.register("a", {"schema": '"string"', "references": [gone]})

    with pytest.raises(UnknownSchemaError):
        fetched(RegistrySettings(url=registry.url), by_number(made.number))


@pytest.mark.parametrize("status", [404, 408, 429, 500, 502, 503])
def test_what_is_no_answer_of_a_registry(registry: SchemaRegistry, status: int) -> None:
    """Given a server that answers everything by an error, such as a proxy or a wrong address, then
    that is no answer: not even of a schema that it has.
    """
    made = registry.register("a", {"schema": '"string"'})
    registry.broken = status

    with pytest.raises(RegistryUnavailableError, match=str(status)):
        fetched(RegistrySettings(url=registry.url), by_number(made.number))


@pytest.mark.parametrize("status", [401, 403, 407])
def test_the_user_is_refused(registry: SchemaRegistry, status: int) -> None:
    """Given a registry that refuses the user, then the error names the settings of access."""
    made = registry.register("a", {"schema": '"string"'})
    registry.broken = status

    with pytest.raises(RegistryRefusedError, match=rf"HTTP {status}.*registry\.username"):
        fetched(RegistrySettings(url=registry.url), by_number(made.number))


def test_nobody_there(registry: SchemaRegistry) -> None:
    """Given a closed port, then that is no answer; and once the registry is back there is one."""
    made = registry.register("a", {"schema": '"string"'})
    settings = RegistrySettings(url=registry.url)
    registry.close()
    with closing(RegistryClient(settings, "avro")) as client:
        with pytest.raises(RegistryUnavailableError):
            client.fetch(by_number(made.number))
        registry.open()

        assert client.fetch(by_number(made.number)).text == '"string"'


def test_basic_authentication(registry: SchemaRegistry, tmp_path: Path) -> None:
    """Given a registry with a password, then it is read from the file; a wrong one is refused."""
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


def test_a_token_for_many_requests(registry: SchemaRegistry) -> None:
    """Given a registry that asks for OAuth, then one token, of the scope, is used for all requests;
    where it ends within a minute, each request has a new one.
    """
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


def test_a_token_that_was_revoked(registry: SchemaRegistry) -> None:
    """Given a token that the registry does not accept any more, then that request is refused, and
    the next has a new token.
    """
    made = registry.register("a", {"schema": '"string"'})
    with closing(RegistryClient(oauth(registry), "avro")) as client:
        client.fetch(by_number(made.number))
        registry.token_requests.append({})  # so the token of before is an old one
        with pytest.raises(RegistryRefusedError):
            client.fetch(by_number(made.number))

        assert client.fetch(by_number(made.number)).text == '"string"'


def test_an_identity_provider_that_refuses_or_is_away(registry: SchemaRegistry) -> None:
    """Given a wrong secret, then the client is refused, without the secret in the message; given a
    provider that does not answer, or with no token, then there is no answer.
    """
    made = registry.register("a", {"schema": '"string"'})
    settings = oauth(registry)
    with pytest.raises(RegistryRefusedError, match=r"invalid_client") as caught:
        fetched(replace(settings, oauth_client_secret=WRONG_SECRET), by_number(made.number))
    assert WRONG_SECRET not in str(caught.value)
    for url in ("http://127.0.0.1:1/token", f"{registry.url}/schemas/types"):
        with pytest.raises(RegistryUnavailableError, match="no token"):
            fetched(replace(settings, oauth_token_url=url), by_number(made.number))


def test_https(tmp_path: Path) -> None:
    """Given a registry that asks clients for a certificate, then one with the right files gets an
    answer; none where the authority is another one, or the client has no certificate.
    """
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


def test_a_second_address(registry: SchemaRegistry) -> None:
    """Given two addresses, the first of which nobody answers, then the second is asked."""
    made = registry.register("a", {"schema": '"string"'})
    settings = RegistrySettings(url=f"http://127.0.0.1:1, {registry.url}")

    assert fetched(settings, by_number(made.number)).text == '"string"'


def test_a_client_that_cannot_be_made(tmp_path: Path) -> None:
    """Given a file that holds no certificate, or a password file that is not there, then the
    settings are refused before anything starts.
    """
    file = tmp_path / "ca.pem"
    file.write_text("no certificate")

    for settings in (
        RegistrySettings(url="https://127.0.0.1:1", ca_file=str(file)),
        RegistrySettings(url="http://127.0.0.1:1", username="a", password_file=str(tmp_path / "x")),
    ):
        with pytest.raises(SettingsError):
            RegistryClient(settings, "avro")


def test_what_a_client_fetched_is_not_kept_in_it(registry: SchemaRegistry) -> None:
    """Given a schema that is fetched twice by one client, then the registry is asked twice: the
    client's own caches have no limit.
    """
    made = registry.register("a", {"schema": json.dumps({"type": "string"})})
    with closing(RegistryClient(RegistrySettings(url=registry.url), "avro")) as client:
        client.fetch(by_number(made.number))
        client.fetch(by_number(made.number))

    assert registry.asked[f"GET /schemas/ids/{made.number}"] == 2
