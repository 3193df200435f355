"""Layers: flag > environment > files > default, names checked, origins kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.errors import SettingsError
from streams.settings.loader import FILE_BYTES_MAX, OTHER_VARIABLES, REMOVED, load_settings
from streams.settings.setting_fields import environment_name
from tests.unit.settings.sources import load, problems_of, settings_of

SOURCES = ("--set", "environment", "kafka-config", "config")


@given(st.sets(st.sampled_from(SOURCES)))
def test_the_first_source_decides(tmp_path_factory: pytest.TempPathFactory, used: set[str]) -> None:
    """Given one Kafka property in any subset of the sources, then the first of them decides, and
    is named as the origin.
    """
    directory = tmp_path_factory.mktemp("layers")
    (config := directory / "a.toml").write_text('[kafka]\nclient.id = "config"\n')
    (kafka_config := directory / "b.properties").write_text("client.id=kafka-config\n")
    loaded = load(
        *(["kafka.client.id=--set"] if "--set" in used else []),
        environ={"FIRSTSEEN_KAFKA__CLIENT_ID": "environment"} if "environment" in used else {},
        kafka_config=kafka_config if "kafka-config" in used else None,
        config=config if "config" in used else None,
    )

    first = next((source for source in SOURCES if source in used), None)
    assert loaded.settings.kafka.get("client.id") == first
    origins = {
        "--set": "--set",
        "environment": "the environment variable FIRSTSEEN_KAFKA__CLIENT_ID",
        "kafka-config": f"the file {kafka_config}",
        "config": f"the file {config}",
        None: "default",
    }
    assert loaded.origin_of("kafka.client.id") == origins[first]


def test_sources_are_merged_setting_by_setting(tmp_path: Path) -> None:
    """Given two settings of one table from two sources, then both count."""
    config = tmp_path / "a.toml"
    config.write_text("[batch]\ndocuments = 7\npackets = 8\n")

    batch = load("batch.packets=9", config=config).settings.batch

    assert (batch.documents, batch.packets) == (7, 9)


def test_internal_topics_follow_the_application_beside_a_named_topic() -> None:
    """Given an application id and a name for the raw topic alone, then the internal topics are
    named after that application: two applications must never share them.
    """
    topics = load("application_id=news", "topics.raw=articles").settings.topics

    assert (topics.raw, topics.unique) == ("articles", "unique")
    internal = (topics.log, topics.reports, topics.changelog)
    assert internal == ("news.log", "news.reports", "news.changelog")


TOML = """
brokers = ["a:1", "b:2"]
include_body = true
[topics]
raw = "r"
[kafka]
security.protocol = "SASL_PLAINTEXT"
sasl.mechanism = "PLAIN"
"sasl.username" = "u"
sasl.password = "p"
socket.keepalive.enable = true
"""
JSON = """{
    "brokers": "a:1,b:2", "include_body": true, "topics": {"raw": "r"},
    "kafka": {
        "security.protocol": "SASL_PLAINTEXT", "sasl": {"mechanism": "PLAIN"},
        "sasl.username": "u", "sasl.password": "p", "socket.keepalive.enable": true
    }
}"""


@pytest.mark.parametrize(("name", "text"), [("a.toml", TOML), ("a.json", JSON)])
def test_files_of_both_kinds(tmp_path: Path, name: str, text: str) -> None:
    """Given the same settings as TOML and as JSON, properties nested or not, then they are one."""
    (path := tmp_path / name).write_text(text)

    settings = load(config=path).settings

    assert settings.brokers == "a:1,b:2"
    assert settings.include_body
    assert settings.topics.raw == "r"
    assert settings.kafka == {
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "p",
        "security.protocol": "SASL_PLAINTEXT",
        "socket.keepalive.enable": "true",
    }


def test_named_flags() -> None:
    """Given the flags that have names of their own, then they are the settings meant."""
    settings = load_settings(
        flags={"--broker": "k:9", "--application-id": "app", "--profile": "classic"}, environ={}
    ).settings

    assert (settings.brokers, settings.application_id, settings.profile) == (
        "k:9",
        "app",
        "classic",
    )


def test_bootstrap_servers_of_a_properties_file(tmp_path: Path) -> None:
    """Given bootstrap.servers in a properties file, as is usual, then they are the brokers."""
    (path := tmp_path / "client.properties").write_text("bootstrap.servers=k-1:1, k-2:2\n")

    loaded = load(kafka_config=path)

    assert loaded.settings.brokers == "k-1:1,k-2:2"
    assert loaded.origin_of("brokers") == f"the file {path}"


@pytest.mark.parametrize(
    ("variable", "near"),
    [
        ("FIRSTSEEN_BROKER", "FIRSTSEEN_BROKERS"),
        ("FIRSTSEEN_TOPICS_RAW", "FIRSTSEEN_TOPICS__RAW"),
        ("FIRSTSEEN_brokers", "FIRSTSEEN_"),
        ("FIRSTSEEN_CONFG", "FIRSTSEEN_CONFIG"),
        ("FIRSTSEEN_KAFKA__", "FIRSTSEEN_KAFKA_"),
    ],
)
def test_unknown_variables_are_errors(variable: str, near: str) -> None:
    """Given a variable with the prefix that is no setting, then it is refused with the nearest."""
    problem = problems_of(environ={variable: "x"})[variable]

    assert near in problem.message or "config show" in problem.message
    assert problem.origin == "the environment"


def test_other_variables_are_let_be() -> None:
    """Given other programs' variables and those of tests, then they are not looked at."""
    environ = dict.fromkeys(OTHER_VARIABLES, "1") | {"FIRSTSEE_X": "1", "HOME": "/", "PATH": ""}

    assert load(environ=environ).origins == {}


def test_unknown_names_in_files_and_flags(tmp_path: Path) -> None:
    """Given names that are no setting, then each is refused, with its place and the nearest."""
    (path := tmp_path / "a.toml").write_text('topic = "x"\n[web]\nprot = 1\n[kafka]\n"" = "x"\n')

    problems = problems_of("batch.document=1", config=path)

    assert "batch.documents" in problems["batch.document"].message
    assert "web.port" in problems["web.prot"].message
    assert problems["web.prot"].origin == f"the file {path}"
    assert problems.keys() == {"batch.document", "topic", "web.prot", "kafka."}


@pytest.mark.parametrize("name", REMOVED)
def test_settings_of_earlier_versions(name: str) -> None:
    """Given a setting that is gone, by flag and by variable, then the message says so, and why."""
    variable = environment_name(name)

    flag = problems_of(f"{name}=5")[name].message
    environment = problems_of(environ={variable: "5"})[variable].message

    assert flag == environment == f"this setting was removed, leave it out: {REMOVED[name]}"


def test_a_table_is_no_value(tmp_path: Path) -> None:
    """Given a value for a table, and a table for a value, then both are told."""
    (path := tmp_path / "a.toml").write_text('topics = "x"\n[brokers]\nhost = "x"\n')

    assert problems_of(config=path).keys() == {"topics", "brokers.host"}


@pytest.mark.parametrize("assignment", ["batch.documents", "=5", " =5", ""])
def test_an_assignment_has_a_name_and_a_value(assignment: str) -> None:
    """Given a --set that is no NAME=VALUE, then it is refused."""
    assert "name=value" in problems_of(assignment)["--set"].message


def test_two_flags_for_one_setting() -> None:
    """Given a setting by its own flag and by --set, then it is not guessed which is meant."""
    with pytest.raises(SettingsError, match=r"brokers .*--broker and --set"):
        load_settings(flags={"--broker": "a:1"}, assignments=["brokers=b:1"], environ={})


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.toml", b"brokers = \n", "Invalid value"),
        ("a.json", b'{"brokers": ', "truncated"),
        ("a.json", b"[1]", "one object"),
        ("a.json", b'{"a":' * 5000, "recursion"),
        ("a.toml", b"\xff\xfe", "not UTF-8"),
        ("a.toml", b"#" * (FILE_BYTES_MAX + 1), "more than 1048576 bytes"),
        ("a.yaml", b"brokers: x", ".toml or .json"),
        ("missing.toml", None, "No such file"),
    ],
)
def test_a_file_that_cannot_be_read(
    tmp_path: Path, name: str, content: bytes | None, says: str
) -> None:
    """Given a broken, missing or huge file, then the error names the file and the reason."""
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(SettingsError) as caught:
        load(config=path)

    assert str(path) in str(caught.value)
    assert says.lower() in str(caught.value).lower()


def test_a_broken_properties_file(tmp_path: Path) -> None:
    """Given a properties file with a name twice, then the error names file and line."""
    (path := tmp_path / "client.properties").write_text("a=1\n\na=2\n")

    with pytest.raises(SettingsError, match=r"client\.properties .*--kafka-config.*line 3"):
        load(kafka_config=path)


def test_all_problems_at_once() -> None:
    """Given several wrong settings, then one error tells all: setting, value, place, fix."""
    with pytest.raises(SettingsError) as caught:
        load("web.port=0", environ={"FIRSTSEEN_BATCH__DOCUMENTS": "many"})

    _, *lines = str(caught.value).splitlines()
    parts = (
        ("web.port", "'0'", "--set", "1 to 65535"),
        ("batch.documents", "'many'", "FIRSTSEEN_BATCH__DOCUMENTS", "1 to 10000"),
    )
    for line, of_line in zip(lines, parts, strict=True):
        assert [part for part in of_line if part not in line] == []


def test_an_error_of_a_table_is_told_of_its_setting() -> None:
    """Given a value that only the table as a whole refuses, then its setting is still named."""
    problem = problems_of("fields.text=")["fields.text"]

    assert (problem.value, problem.origin) == ("''", "--set")


def test_long_values_are_cut() -> None:
    """Given a long wrong value, then the message shows its beginning."""
    assert len(problems_of(f"delivery={'x' * 1000}")["delivery"].value) < 110


def test_state_follows_the_given_environment() -> None:
    """Given XDG_DATA_HOME in the environment that is loaded from, then state is there."""
    settings = load("application_id=news", environ={"XDG_DATA_HOME": "/data"}).settings

    assert str(settings.state_path()) == "/data/firstseen/news"


def test_blanks_around_brokers() -> None:
    """Given a list of brokers with blanks and a comma too many, then they are cleaned away."""
    assert settings_of("brokers= a:1, b:2,").brokers == "a:1,b:2"
