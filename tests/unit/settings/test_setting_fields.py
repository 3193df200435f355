"""The closed list of settings: each described, bounded, and its own default within its limits."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec import inspect

from simhash_core.fingerprints.feature_hashes import FEATURE_HASHES
from simhash_core.text.profiles import PROFILES, Profile
from simhash_core.text.segmentation import SEGMENTERS
from simhash_core.text.weighting import WEIGHTINGS
from streams.settings.index import IndexSettings
from streams.settings.setting_fields import TEXT_LENGTH_MAX, SettingField, setting_fields, shown
from streams.settings.settings import Settings, default_state_dir

FIELDS = setting_fields()


def default_of(name: str) -> object:
    """The value that a setting has in `Settings()`."""
    value: object = Settings()
    for part in name.split("."):
        value = getattr(value, part)
    return value


def bounds_of(field: SettingField) -> tuple[float, float] | None:
    """The least and the greatest value of a number; None for anything else."""
    info = inspect.type_info(field.type)
    while isinstance(info, inspect.Metadata):
        info = info.type
    kinds = info.types if isinstance(info, inspect.UnionType) else (info,)
    for kind in kinds:
        if isinstance(kind, inspect.IntType | inspect.FloatType):
            assert kind.ge is not None
            assert kind.le is not None
            return kind.ge, kind.le
    return None


NUMBERS = [name for name, field in FIELDS.items() if bounds_of(field)]


@pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS)
def test_each_setting_is_described(field: SettingField) -> None:
    """Given any setting, then its help is a sentence, and it says what a value must be."""
    assert field.help.endswith(".")
    assert field.help[0].isupper()
    assert field.expected


@pytest.mark.parametrize("name", FIELDS)
def test_each_default_is_within_its_limits(name: str) -> None:
    """Given a default, when it is written down and read again, then it is the same value."""
    default = default_of(name)

    assert FIELDS[name].parse(shown(default)) == default


def test_there_are_numbers_to_bound() -> None:
    """Given the settings, then each number among them has two limits (found by `bounds_of`)."""
    assert {"web.port", "session_timeout_seconds", "index.distance", "broker_wait_seconds"} <= {
        *NUMBERS
    }


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_bounded(name: str) -> None:
    """Given a number, then its limits are allowed, and what is beyond them is not."""
    bounds = bounds_of(FIELDS[name])
    assert bounds is not None
    least, greatest = bounds

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
    """Given text, as flags and variables are, then it is read as what the setting holds."""
    assert FIELDS[name].parse(text) == value


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("include_body", 1),
        ("include_body", "yes"),
        ("web.port", "6.5"),
        ("web.port", " 80"),
        ("web.port", True),
        ("brokers", 5),
        ("brokers", ""),
        ("brokers", ["a:1"]),
        ("state_dir", ""),
        ("state_dir", "~no-such-user-here/x"),
        ("delivery", "at-least-once"),
        ("application_id", "a b"),
        ("application_id", "-a"),
        ("application_id", "a" * 201),
        ("group_instance_id", "a b"),
        ("topics.raw", "快照"),
        ("fields.format", "xml"),
        ("fields.text", "x" * (TEXT_LENGTH_MAX + 1)),
    ],
)
def test_other_values_are_refused(name: str, given: object) -> None:
    """Given a value of another type or form, then it is refused with what is allowed."""
    with pytest.raises(ValueError, match=r"must be|are allowed"):
        FIELDS[name].parse(given)


def test_a_home_is_expanded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Given a path that begins with ~, then it is the home's."""
    monkeypatch.setenv("HOME", str(tmp_path))

    assert FIELDS["state_dir"].parse("~/state") == tmp_path / "state"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"XDG_DATA_HOME": "/data", "HOME": "/home/lu"}, "/data/firstseen"),
        ({"HOME": "/home/lu"}, "/home/lu/.local/share/firstseen"),
        ({"XDG_DATA_HOME": "", "HOME": "/home/lu"}, "/home/lu/.local/share/firstseen"),
        ({"XDG_DATA_HOME": "data", "HOME": "/home/lu"}, "/home/lu/.local/share/firstseen"),
    ],
)
def test_where_state_is_kept_by_default(environ: dict[str, str], expected: str) -> None:
    """Given an environment, then state is where the XDG specification says."""
    assert default_state_dir(environ) == Path(expected)


def test_index_settings_are_the_profiles_fields() -> None:
    """Given the fields of a profile, then each can be changed, and nothing else; but whether there
    are scopes, which a field of theirs says.
    """
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
def test_help_names_every_choice(name: str, known: tuple[str, ...]) -> None:
    """Given a setting that names something of the core, then its help lists what there is."""
    words = FIELDS[name].help.rstrip(".").replace(",", "").split()

    assert set(known) <= set(words)


def test_internal_topics_keep_their_names() -> None:
    """Given settings, when they are copied with another application id, then internal topics keep
    the names that they have.
    """
    settings = Settings(application_id="news")

    assert msgspec.structs.replace(settings, application_id="x").topics.log == "news.log"


def test_secrets_are_not_in_the_representation() -> None:
    """Given a password among the Kafka properties, then `repr` has its name alone."""
    text = repr(Settings(kafka={"sasl.password": "hush"}))

    assert "sasl.password" in text
    assert "hush" not in text
