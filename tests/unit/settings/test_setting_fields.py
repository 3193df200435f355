"""The closed list of settings: each is described, documented and limited; derived values."""

from __future__ import annotations

import json
import re
from operator import attrgetter
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.fingerprints.feature_hashes import FEATURE_HASHES
from simhash_core.text.profiles import PROFILES, Profile
from simhash_core.text.segmentation import SEGMENTERS
from simhash_core.text.weighting import WEIGHTINGS
from streams.documents.fields import FieldSettings
from streams.errors import ExitCode
from streams.settings.loader import TEXT_LENGTH_MAX, SettingField, setting_fields, shown
from streams.settings.reference import with_tables
from streams.settings.settings import IndexSettings, Mode, Settings, default_state_dir
from streams.topics.plans import topic_plans
from streams.worker.index_on_kafka import reading_rules
from tests.repository.source_tree import ROOT
from tests.unit.settings.sources import load, settings_of

FIELDS = setting_fields()


NUMBER = re.compile(r"number from (\S+) to ([^\s,]+)")
BOUNDS = {
    name: tuple(map(json.loads, told.groups()))
    for name, field in FIELDS.items()
    if (told := NUMBER.search(field.expected))
}


@pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS)
def test_help_is_a_sentence_and_says_what_a_value_must_be(field: SettingField) -> None:
    assert field.help.endswith(".")
    assert field.help[0].isupper()
    assert field.expected


@pytest.mark.parametrize("name", FIELDS)
def test_each_default_can_be_written_and_read_again(name: str) -> None:
    default = attrgetter(name)(Settings())
    assert FIELDS[name].parse(shown(default)) == default


@pytest.mark.parametrize("name", BOUNDS)
def test_the_limits_of_a_number_are_allowed_as_told_and_no_more(name: str) -> None:
    least, greatest = BOUNDS[name]
    assert FIELDS[name].parse(str(least)) == least
    assert FIELDS[name].parse(greatest) == greatest
    for beyond in (str(greatest + 1), str(least - 1), greatest + 1, least - 1, "nan", "inf"):
        with pytest.raises(ValueError, match="must be"):
            FIELDS[name].parse(beyond)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("include_body", "true", True),
        ("include_body", "False", False),
        ("include_body", "1", True),
        ("index.distance", "", None),
        ("broker_wait_seconds", "", None),
        ("group_instance_id", "worker-1", "worker-1"),
        ("session_timeout_seconds", "1e1", 10.0),
        ("fields.title", "", ""),
        ("state_dir", "/srv/firstseen", Path("/srv/firstseen")),
    ],
)
def test_text_is_read_as_the_settings_type(name: str, text: str, value: object) -> None:
    assert FIELDS[name].parse(text) == value


NO_VALUES: dict[str, list[object]] = {
    "include_body": [1, "yes"],
    "web.port": ["6.5", " 80", True],
    "brokers": [5, "", ["a:1"]],
    "state_dir": ["", "~no-such-user-here/x"],
    "delivery": ["at-least-once"],
    "application_id": ["a b", "-a", "a" * 201],
    "group_instance_id": ["a b"],
    "topics.raw": ["快照"],
    "fields.format": ["xml"],
    "fields.text": ["x" * (TEXT_LENGTH_MAX + 1)],
}


@pytest.mark.parametrize("name", NO_VALUES)
def test_other_values_are_refused_with_what_is_allowed(name: str) -> None:
    for value in NO_VALUES[name]:
        with pytest.raises(ValueError, match=r"must be|the limit is"):
            FIELDS[name].parse(value)


def test_a_tilde_is_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert FIELDS["state_dir"].parse("~/state") == tmp_path / "state"


@pytest.mark.parametrize(
    ("data_home", "expected"),
    [
        ({"XDG_DATA_HOME": "/data"}, "/data/firstseen"),
        ({}, "/home/lu/.local/share/firstseen"),
        ({"XDG_DATA_HOME": ""}, "/home/lu/.local/share/firstseen"),
        ({"XDG_DATA_HOME": "data"}, "/home/lu/.local/share/firstseen"),
    ],
)
def test_state_is_kept_where_xdg_says(data_home: dict[str, str], expected: str) -> None:
    assert default_state_dir({"HOME": "/home/lu", **data_home}) == Path(expected)


def test_index_settings_are_the_profiles_fields_but_scoped() -> None:
    """The setting ``fields.scope`` says whether there are scopes."""
    names = [field.name for field in msgspec.structs.fields(Profile)]
    assert [*IndexSettings.__struct_fields__, "scoped"] == names


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("index.segmenter", SEGMENTERS),
        ("index.weighting", WEIGHTINGS),
        ("index.feature_hash", FEATURE_HASHES),
        ("profile", PROFILES),
    ],
)
def test_help_names_every_choice_of_the_core(name: str, known: tuple[str, ...]) -> None:
    words = FIELDS[name].help.rstrip(".").replace(",", "").split()
    assert set(known) <= set(words)


def test_internal_topics_keep_their_names_when_settings_are_copied() -> None:
    settings = Settings(application_id="news")
    assert msgspec.structs.replace(settings, application_id="x").topics.log == "news.log"


def test_each_mode_has_its_own_output_topics_and_the_same_internal_ones() -> None:
    names = Settings().topics
    split, tag = Settings(), Settings(mode=Mode.TAG)
    assert split.output_topics == (names.unique, names.duplicates, names.dead_letters)
    assert tag.output_topics == (names.tagged, names.dead_letters)
    for settings in (split, tag):
        outputs = [p for p in topic_plans(settings, 6, 3) if p.output_retention_ms is not None]
        assert tuple(plan.name for plan in outputs) == settings.output_topics
        assert [plan.partitions for plan in outputs] == [*[6] * (len(outputs) - 1), 1]
        assert all(plan.times_of == names.raw for plan in outputs)
    internal = [plan for plan in topic_plans(split, 6, 3) if plan.output_retention_ms is None]
    assert internal == [p for p in topic_plans(tag, 6, 3) if p.output_retention_ms is None]


# ---- The rules for reading records, as a text that an index compares.


def rules_of(*assignments: str) -> set[str]:
    return set(reading_rules(settings_of(*assignments)).split("\n"))


def test_the_rules_of_the_defaults_are_this_text() -> None:
    """Changelogs contain this text, so it may change only with the rules."""
    assert reading_rules(Settings()) == (
        "reader=1\n"
        "fields.text=text\n"
        "fields.id=id\n"
        "fields.title=title\n"
        "fields.keywords=keywords\n"
        "fields.tags=tags\n"
        "fields.references=references\n"
        "fields.timestamp=timestamp\n"
        "fields.format=auto\n"
        "max_record_bytes=1048576"
    )


def test_every_field_is_a_rule() -> None:
    settings = Settings(fields=FieldSettings(scope="tenant", key_format="avro"))
    names = {line.partition("=")[0] for line in reading_rules(settings).split("\n")}
    assert {f"fields.{name}" for name in FieldSettings.__struct_fields__} <= names


REGISTRY = "registry.url=http://a"


@pytest.mark.parametrize(
    ("assignments", "others", "rules"),
    [
        # Settings that do not affect how records are read; the registry may move:
        (["application_id=other", "profile=classic", "include_body=true"], [], set()),
        (
            ["fields.format=avro", "registry.url=http://b", "registry.validate=false"],
            ["fields.format=avro", REGISTRY],
            set(),
        ),
        # Settings that do:
        (
            ["fields.text=body", "max_record_bytes=2048"],
            [],
            {"fields.text=body", "max_record_bytes=2048"},
        ),
        (["fields.format=avro", REGISTRY], [], {"fields.format=avro", "schema_reader=1"}),
        (["fields.key_format=avro", REGISTRY], [], {"fields.key_format=avro", "schema_reader=1"}),
        (
            ["fields.format=json-schema", REGISTRY],
            ["fields.format=json-schema", REGISTRY, "registry.validate=false"],
            {"registry.validate=true"},
        ),
    ],
)
def test_only_what_is_read_differently_is_another_rule(
    assignments: list[str], others: list[str], rules: set[str]
) -> None:
    assert rules_of(*assignments) - rules_of(*others) == rules
    if not rules:
        assert rules_of(*assignments) == rules_of(*others)


@given(
    st.text(min_size=1).filter(str.isprintable) | st.sampled_from(["a\nb=c", "a\\nb=c", "=", "\r"])
)
def test_any_name_of_a_field_is_one_rule_unlike_any_other(name: str) -> None:
    named = Settings(fields=FieldSettings(title=name))
    assert len(reading_rules(named).split("\n")) == len(reading_rules(Settings()).split("\n"))
    assert (reading_rules(named) == reading_rules(Settings())) == (name == "title")


# ---- docs/configuration.md says what the code does.

PAGE = ROOT / "docs" / "configuration.md"


def test_the_page_has_the_tables_of_the_code() -> None:
    """`firstseen config reference --update docs/configuration.md` updates them."""
    assert PAGE.read_text("utf-8") == with_tables(PAGE.read_text("utf-8"))


def test_the_page_has_every_exit_code() -> None:
    table = PAGE.read_text("utf-8").partition("## Exit codes")[2].partition("\n\n##")[0]
    assert [code for code in ExitCode if f"{code.value}" not in table] == []


def test_the_settings_file_of_the_page_can_be_loaded(tmp_path: Path) -> None:
    example = PAGE.read_text("utf-8").partition("```toml\n")[2].partition("```")[0]
    (path := tmp_path / "firstseen.toml").write_text(example, "utf-8")
    settings = load("kafka.sasl.username=u", "kafka.sasl.password=p", config=path).settings
    assert settings.index_profile().distance == 40
    assert settings.brokers == "kafka-1:9092,kafka-2:9092"


@pytest.mark.parametrize("page", ["no marks", "<!-- end -->"])
def test_a_page_without_a_place_for_the_tables_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="lacks"):
        with_tables(page)
