"""Every client of workers and commands on a Kafka that requires TLS and credentials, and grants
only the permissions of docs/operations.md.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from streams.demo.worker_process import WorkerProcess
from streams.errors import ExitCode
from streams.kafka.clients import Producer
from streams.kafka.connection import connect_admin
from streams.topics.admin import TopicsError, grow_changelog
from streams.worker.index_on_kafka import other_outputs
from tests.repository.source_tree import ROOT
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.secured_kafka import PASSWORD, Grant, SecuredKafka
from tests.unit.cli.running import firstseen, run_here, started
from tests.unit.settings.certificates import KEY_PASSWORD, make_certificates
from tests.unit.settings.sources import load

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("kafka_required")]

OPERATIONS = ROOT / "docs" / "operations.md"
NEWS = "The harbour board met on Tuesday to talk about the new ferry, its timetable and its fares. "
CLIENTS = ("sasl_ssl", "mtls")
TOPICS = {
    "raw": "raw-documents",
    "unique": "unique",
    "duplicates": "duplicate-of",
    "dead_letters": "dlq.raw-documents",
}
SECRETS = (PASSWORD, KEY_PASSWORD)


@pytest.fixture(scope="module")
def secured(
    kafka_required: None,  # noqa: ARG001 - skips
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SecuredKafka]:
    """Run the broker with the permissions that the documentation names."""
    directory = tmp_path_factory.mktemp("secured")
    (directory / "certificates").mkdir()
    with SecuredKafka(directory / "kafka", make_certificates(directory / "certificates")) as kafka:
        kafka.grant(documented_grants())
        yield kafka


def documented_grants() -> Iterator[Grant]:
    """Return the table of ACLs in docs/operations.md, and those that `topics create` needs.

    Default names of topics are replaced by those of each client.
    """
    row = re.compile(r"^\| (Topic|Group|TransactionalId) \| (.+?) \| (.+) \|$", re.MULTILINE)
    rows = row.findall(OPERATIONS.read_text("utf-8"))
    assert rows, "no table of ACLs in docs/operations.md"
    for kind, names, rest in rows:
        operations = tuple(re.findall(r"`([A-Z]\w+)`", rest))
        for name in re.findall(r"`([^`]+)`", names):
            own = [name] if name.endswith("*") else [own_topic(client, name) for client in CLIENTS]
            yield from (Grant(kind, each, operations) for each in own)
    yield Grant("Topic", "firstseen.*", ("Create",))
    yield from (Grant("Topic", f"{client}-*", ("Create",)) for client in CLIENTS)


def own_topic(client: str, name: str) -> str:
    internal = name.removeprefix("firstseen.")
    return f"{client}-{name}" if internal == name else f"firstseen.{client}.{internal}"


class Client(NamedTuple):
    """A client with its credentials: ``--kafka-config`` and an application id."""

    name: str
    properties: Path
    directory: Path
    application_id: str

    @property
    def options(self) -> list[str]:
        options = ["--kafka-config", str(self.properties)]
        options += ["--application-id", self.application_id]
        for setting, topic in TOPICS.items():
            options += ["--set", f"topics.{setting}={self.name}-{topic}"]
        return options

    def run(self, *arguments: str) -> str:
        """Run a command, which must succeed; return its output."""
        code, said = run(*arguments, *self.options)
        assert code == 0, said
        return said


def run(*arguments: str) -> tuple[int, str]:
    code, out, errors = run_here(*arguments)
    return code, out + errors


def properties_of(client: str, secured: SecuredKafka) -> dict[str, str]:
    """Return a user's properties with its credentials: a password, or a certificate."""
    if client == "sasl_ssl":
        address, properties = secured.sasl_ssl, secured.scram_properties()
        properties["sasl.password"] = PASSWORD
    else:
        address, properties = secured.mtls, secured.mtls_properties()
        properties["ssl.key.password"] = KEY_PASSWORD
    return {"bootstrap.servers": address, **properties}


def write(path: Path, properties: Mapping[str, str]) -> Path:
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), "utf-8")
    return path


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, secured: SecuredKafka, tmp_path: Path) -> Client:
    properties = properties_of(request.param, secured)
    name, secret = properties.popitem()
    (tmp_path / "secret").write_text(f"{secret}\n", "utf-8")
    properties[f"{name}.file"] = str(tmp_path / "secret")
    path = write(tmp_path / "client.properties", properties)
    return Client(request.param, path, tmp_path, f"firstseen.{request.param}")


def test_documented_rights_suffice_and_no_log_has_a_secret(client: Client) -> None:
    said = client.run("topics", "create", "--partitions", "2")
    documents = [{"id": "a", "text": NEWS * 3}, {"id": "b", "text": NEWS * 3}, {"id": "c"}]
    given = client.directory / "news.jsonl"
    given.write_text("".join(json.dumps(each) + "\n" for each in documents), "utf-8")
    said += client.run("produce", str(given))
    options = [*client.options, "--set", f"state_dir={client.directory}"]
    options += ["--set", "log.level=debug"]
    with WorkerProcess(options, client.directory / "worker.log") as worker:
        worker.await_ready()
        outputs = consumed(client, 3)
        replayed = json.loads(client.run("dlq", "replay", "--all", "--json"))
        outputs = consumed(client, 4)
        assert not worker.stop()
    log = (client.directory / "worker.log").read_text("utf-8")

    assert replayed["sent"] == 1
    assert sorted(outputs) == ["dlq.raw-documents"] * 2 + ["duplicate-of", "unique"]
    said += client.run("topics", "check") + client.run("config", "show")
    said += client.run("config", "show", "--json") + client.run("dlq", "list")
    for secret in SECRETS:
        assert secret not in said + log
    assert "harbour board" not in log
    assert "Traceback" not in log


def consumed(client: Client, count: int) -> list[str]:
    deadline = time.monotonic() + 90
    while True:
        lines = client.run("consume", "--until-end", "--json").splitlines()
        topics = [json.loads(line)["topic"].removeprefix(f"{client.name}-") for line in lines]
        if len(topics) >= count or time.monotonic() > deadline:
            return topics


def test_a_worker_names_each_right_that_is_missing(secured: SecuredKafka, tmp_path: Path) -> None:
    path = write(tmp_path / "client.properties", properties_of("sasl_ssl", secured))
    options = ["--kafka-config", str(path), "--application-id", "elsewhere"]
    for setting in TOPICS:
        options += ["--set", f"topics.{setting}=elsewhere.{setting}"]
    secured.grant(
        [
            Grant("Topic", "elsewhere.*", ("Create", "Describe", "DescribeConfigs", "Read")),
            Grant("Topic", "elsewhere.unique", ("Write",)),
        ]
    )
    assert run("topics", "create", "--partitions", "1", *options)[0] == 0

    worker = firstseen("worker", *options, "--set", f"state_dir={tmp_path}")

    assert worker.returncode == ExitCode.CONFIGURATION, worker.stderr
    missing = re.findall(r"may not (.+?): grant it", worker.stderr)
    assert missing == [
        "Write topic elsewhere.duplicates",
        "Write topic elsewhere.dead_letters",
        "Delete topic elsewhere.log",
        "Write topic elsewhere.log",
        "Write topic elsewhere.reports",
        "Write topic elsewhere.changelog",
        "Read group elsewhere",
    ]

    secured.grant(
        [
            Grant("Topic", "elsewhere.*", ("Write", "Delete")),
            Grant("Group", "elsewhere*", ("Read",)),
        ]
    )
    worker = firstseen("worker", *options, "--set", f"state_dir={tmp_path}")
    assert worker.returncode == ExitCode.CONFIGURATION, worker.stderr
    assert "may not Write TransactionalId elsewhere." in worker.stderr


def test_a_changelog_that_may_not_grow_names_the_right_and_the_command(
    secured: SecuredKafka, tmp_path: Path
) -> None:
    path = write(tmp_path / "client.properties", properties_of("sasl_ssl", secured))
    secured.grant([Grant("Topic", "grown*", ("Create", "Describe", "Read"))])
    settings = load("application_id=grown", "topics.raw=grown.raw", kafka_config=path).settings
    admin = connect_admin(settings, 30.0)
    Broker("kafka", secured.server).create_topics({"grown.raw": 2, "grown.changelog": 1})
    with pytest.raises(TopicsError, match=r"grown\.changelog needs 2 partitions") as refused:
        grow_changelog(admin, settings)
    assert "ACL operation Alter" in str(refused.value)
    assert "--topic grown.changelog --partitions 2" in str(refused.value)


def test_outputs_that_may_not_be_read_are_told_and_not_checked(
    secured: SecuredKafka, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "client.properties", properties_of("sasl_ssl", secured))
    Broker("kafka", secured.server).create_topics({"written": 2})
    producer = Producer({"bootstrap.servers": secured.server.bootstrap_servers})
    headers = {"firstseen-verdict": b"unique", "firstseen-application": b"news"}
    producer.produce("written", b"", partition=1, headers={**headers})
    assert producer.flush(30) == 0
    secured.grant([Grant("Topic", "written", ("Write", "Describe"))])
    settings = load("application_id=firstseen.writer", kafka_config=path).settings

    assert other_outputs(settings, {"written": 2}) is None
    assert "may not read written" in caplog.text
    secured.grant([Grant("Topic", "written", ("Read",))])
    found = other_outputs(settings, {"written": 2})
    assert found is not None
    assert found.application == "news"


class Wrong(NamedTuple):
    """Settings that a broker refuses, as changes to those of a client; None removes one."""

    client: str
    changes: Mapping[str, str | None]
    says: tuple[str, ...]
    code: ExitCode = ExitCode.CONFIGURATION


REFUSES_USER = ("kafka.sasl.password", "refuses kafka.sasl.username")
NO_CERTIFICATE: Mapping[str, str | None] = {
    "ssl.certificate.location": None,
    "ssl.key.location": None,
    "ssl.key.password": None,
}
NO_TLS = {**NO_CERTIFICATE, "security.protocol": None, "ssl.ca.location": None}
WRONG = {
    "password": Wrong("sasl_ssl", {"sasl.password": "not-the-word"}, REFUSES_USER),
    "user": Wrong("sasl_ssl", {"sasl.username": "nobody"}, REFUSES_USER),
    "mechanism": Wrong(
        "sasl_ssl", {"sasl.mechanism": "PLAIN"}, ("kafka.sasl.mechanism", "SCRAM-SHA-512")
    ),
    "authority": Wrong(
        "sasl_ssl",
        {"ssl.ca.location": "other"},
        ("kafka.ssl.ca.location", "not signed by a trusted authority"),
    ),
    "no certificate": Wrong(
        "mtls", NO_CERTIFICATE, ("kafka.ssl.certificate.location", "kafka.ssl.key.location")
    ),
    "no TLS": Wrong(
        "mtls",
        NO_TLS,
        ("kafka.security.protocol than PLAINTEXT", "SASL_SSL"),
        ExitCode.BROKER_UNAVAILABLE,
    ),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_refused_credentials_end_worker_and_command_with_setting_and_fix(
    wrong: Wrong, secured: SecuredKafka, tmp_path: Path
) -> None:
    properties = properties_of(wrong.client, secured)
    for name, value in wrong.changes.items():
        properties.pop(name, None)
        if value is not None:
            is_other = name == "ssl.ca.location"
            properties[name] = str(secured.certificates.other_authority) if is_other else value
    path = write(tmp_path / "client.properties", properties)
    options = ["--kafka-config", str(path), "--set", f"state_dir={tmp_path}"]

    began = time.monotonic()
    with started("worker", *options) as worker:
        code, said = run("topics", "check", *options)
        _, log = worker.communicate(timeout=120)

    assert time.monotonic() - began < 60
    assert (worker.returncode, code) == (wrong.code, wrong.code), log + said
    for text in (log, said):
        assert all(each in text for each in wrong.says), text
        assert "Traceback" not in text
        assert not any(secret in text for secret in (*SECRETS, "not-the-word"))
