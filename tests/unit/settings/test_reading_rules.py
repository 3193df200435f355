"""The rules by which records are read, as a text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streams.documents.fields import FieldSettings
from streams.settings.settings import Settings
from streams.worker.index_on_kafka import reading_rules


def test_the_text_of_the_defaults() -> None:
    """Given the defaults, then the text is this one: it stands in changelogs, so it must not change
    while the rules do not.
    """
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
    """Given the settings of fields, then each is among the rules: one that is added counts too."""
    settings = Settings(fields=FieldSettings(scope="tenant", key_format="avro"))
    names = {line.partition("=")[0] for line in reading_rules(settings).split("\n")}

    assert {f"fields.{name}" for name in FieldSettings.__struct_fields__} <= names


def test_what_reads_alike_has_the_same_rules() -> None:
    """Given settings that differ in what does not decide how records are read, then the rules are
    the same.
    """
    other = Settings(application_id="other", profile="classic", include_body=True)

    assert reading_rules(other) == reading_rules(Settings())


def test_only_what_differs_is_another_line() -> None:
    """Given another text field and another limit, then those two lines differ, and no other."""
    other = Settings(fields=FieldSettings(text="body"), max_record_bytes=2048)

    assert set(reading_rules(other).split("\n")) - set(reading_rules(Settings()).split("\n")) == {
        "fields.text=body",
        "max_record_bytes=2048",
    }


@given(
    st.text(min_size=1).filter(str.isprintable) | st.sampled_from(["a\nb=c", "a\\nb=c", "=", "\r"])
)
def test_any_name_of_a_field_is_one_rule(name: str) -> None:
    """Given any name of a field, ends of lines and equals signs in it too, then the text has as
    many rules as ever, and differs from that of every other name.
    """
    named = Settings(fields=FieldSettings(title=name))

    assert len(reading_rules(named).split("\n")) == len(reading_rules(Settings()).split("\n"))
    assert (reading_rules(named) == reading_rules(Settings())) == (name == "title")
