"""Layers: flag > environment > files > default, names checked, origins kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.errors import SettingsError
from streams.settings.loader import (
    FILE_BYTES_MAX,
    OTHER_VARIABLES,
    load_settings,
)
from tests.unit.settings.sources import load, problems_of

SOURCES = ("--set", "environment", "kafka-config", "config")


@given(st.sets(st.sampled_from(SOURCES)))
def test_the_first_source_decides(tmp_path_factory: pytest.TempPathFactory, used: set[str]) -> None:
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
    (config := tmp_path / "a.toml").write_text("[batch]\ndocuments = 7\nbundles = 8\n")
    batch = load("batch.bundles=9", config=config).settings.batch
    assert (batch.documents, batch.bundles) == (7, 9)


def test_internal_topics_follow_the_application_beside_a_named_topic() -> None:
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
def test_toml_and_json_are_read_alike(tmp_path: Path, name: str, text: str) -> None:
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


def test_bootstrap_servers_of_a_properties_file_are_the_brokers(tmp_path: Path) -> None:
    (path := tmp_path / "client.properties").write_text("bootstrap.servers= k-1:1, k-2:2,\n")
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
def test_unknown_variables_are_refused_with_the_nearest(variable: str, near: str) -> None:
    problem = problems_of(environ={variable: "x"})[variable]
    assert near in problem.message or "config show" in problem.message
    assert problem.origin == "the environment"


def test_variables_of_other_programs_and_of_tests_are_let_be() -> None:
    environ = dict.fromkeys(OTHER_VARIABLES, "1") | {"FIRSTSEE_X": "1", "HOME": "/", "PATH": ""}
    assert load(environ=environ).origins == {}


def test_unknown_names_in_files_and_flags_are_refused_with_the_nearest(tmp_path: Path) -> None:
    (path := tmp_path / "a.toml").write_text('topic = "x"\n[web]\nprot = 1\n[kafka]\n"" = "x"\n')
    problems = problems_of("batch.document=1", config=path)
    assert "batch.documents" in problems["batch.document"].message
    assert "web.port" in problems["web.prot"].message
    assert problems["web.prot"].origin == f"the file {path}"
    assert problems.keys() == {"batch.document", "topic", "web.prot", "kafka."}


def test_a_value_for_a_table_and_a_table_for_a_value_are_refused(tmp_path: Path) -> None:
    (path := tmp_path / "a.toml").write_text('topics = "x"\n[brokers]\nhost = "x"\n')
    assert problems_of(config=path).keys() == {"topics", "brokers.host"}


def test_a_problem_of_a_table_names_its_setting_and_a_long_value_is_cut() -> None:
    problems = problems_of("fields.text=", f"delivery={'x' * 1000}")
    assert (problems["fields.text"].value, problems["fields.text"].origin) == ("''", "--set")
    assert len(problems["delivery"].value) < 110


@pytest.mark.parametrize("assignment", ["batch.documents", "=5", " =5", ""])
def test_an_assignment_has_a_name_and_a_value(assignment: str) -> None:
    assert "name=value" in problems_of(assignment)["--set"].message


def test_two_flags_for_one_setting_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"brokers .*--broker and --set"):
        load_settings(flags={"--broker": "a:1"}, assignments=["brokers=b:1"], environ={})


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.toml", b"brokers = \n", "Invalid value"),
        ("a.json", b'{"brokers": ', "line 1 column 13"),
        ("a.json", b'{"batch": {"documents": 1, "documents": 2}}', "has 'documents' twice"),
        ("a.json", b"[1]", "one object"),
        ("a.json", b"[" * 500_000, "recursion"),
        ("a.toml", b"\xff\xfe", "not UTF-8"),
        ("a.toml", b"#" * (FILE_BYTES_MAX + 1), "more than 1048576 bytes"),
        ("a.yaml", b"brokers: x", ".toml or .json"),
        ("missing.toml", None, "No such file"),
        ("client.properties", b"a=1\n\na=2\n", "(from --kafka-config): line 3"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_reason(
    tmp_path: Path, name: str, content: bytes | None, says: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    files = (None, path) if path.suffix == ".properties" else (path, None)
    with pytest.raises(SettingsError) as caught:
        load(config=files[0], kafka_config=files[1])
    assert str(path) in str(caught.value)
    assert says.lower() in str(caught.value).lower()


def test_one_error_tells_setting_value_place_and_fix_of_all_problems() -> None:
    with pytest.raises(SettingsError) as caught:
        load("web.port=0", environ={"FIRSTSEEN_BATCH__DOCUMENTS": "many"})
    _, *lines = str(caught.value).splitlines()
    parts = (
        ("web.port", "'0'", "--set", "1 to 65535"),
        ("batch.documents", "'many'", "FIRSTSEEN_BATCH__DOCUMENTS", "1 to 10000"),
    )
    for line, of_line in zip(lines, parts, strict=True):
        assert [part for part in of_line if part not in line] == []


def test_state_is_where_the_given_environment_says() -> None:
    settings = load("application_id=news", environ={"XDG_DATA_HOME": "/data"}).settings
    assert str(settings.state_path()) == "/data/firstseen/news"
