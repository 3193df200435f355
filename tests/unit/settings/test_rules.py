"""Rules: what settings must be together."""

from __future__ import annotations

from pathlib import Path

import pytest

from simhash_core.text.profiles import PROFILES
from streams.settings.rules import violations
from streams.settings.settings import Settings
from tests.unit.settings.sources import load, problems_of, settings_of


def test_the_defaults_keep_every_rule() -> None:
    """Given the defaults, then no rule finds anything."""
    assert list(violations(Settings())) == []


@pytest.mark.parametrize("brokers", ["a:1", "127.0.0.1:9092,b.c:65535", "[::1]:9092"])
def test_addresses(brokers: str) -> None:
    """Given addresses with ports, then they are brokers."""
    assert settings_of(f"brokers={brokers}").brokers == brokers


@pytest.mark.parametrize(
    ("brokers", "says"),
    [
        ("a", "no address"),
        (":9092", "no address"),
        ("a b:1", "no address"),
        ("a:", "no port"),
        ("a:0", "no port"),
        ("a:65536", "no port"),
        ("a:1,b:x", "'b:x' has no port"),
        ("a:１", "no port"),
        ("::1:9092", "brackets"),
        ("kafka://a:1", "scheme"),
        (",", "at least one"),
    ],
)
def test_no_addresses(brokers: str, says: str) -> None:
    """Given something else among the brokers, then the message says which and why."""
    assert says in problems_of(f"brokers={brokers}")["brokers"].message


@pytest.mark.parametrize(
    "assignments",
    [
        ["topics.unique=raw-documents"],
        ["topics.dead_letters=raw-documents"],
        ["topics.raw=firstseen.log"],
        ["topics.duplicates=a.b", "topics.raw=a_b"],
        ["mode=tag", "topics.tagged=raw-documents"],
    ],
)
def test_topics_differ(assignments: list[str]) -> None:
    """Given two topics of one name, or of names that Kafka takes for one, then that is refused:
    outputs would come in again.
    """
    assert {name.partition(".")[0] for name in problems_of(*assignments)} == {"topics"}


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_topics_have_names(name: str) -> None:
    """Given a name that no topic can have, then it is refused."""
    assert problems_of(f"topics.raw={name}").keys() == {"topics.raw"}


def test_a_long_application_id_leaves_room_for_topics() -> None:
    """Given the longest application id, then its internal topics still have names."""
    assert settings_of(f"application_id={'a' * 200}").topics.changelog.endswith(".changelog")


def test_unknown_profile() -> None:
    """Given a profile that is none, then the message lists those that there are."""
    assert ", ".join(sorted(PROFILES)) in problems_of("profile=narrow")["profile"].message


def test_index_changes_the_profile() -> None:
    """Given changes to the index, then the profile has them and keeps the rest."""
    profile = settings_of("profile=classic", "index.distance=2").index_profile()

    assert (profile.bits, profile.distance) == (64, 2)


def test_a_window_and_its_lateness() -> None:
    """Given durations, then the profile has them in milliseconds; a day of lateness unless set."""
    day = 86_400_000
    windowed = settings_of("index.window=30d").index_profile()
    short = settings_of("index.window=90m", "index.lateness=0s").index_profile()

    assert (windowed.window, windowed.lateness) == (30 * day, day)
    assert (short.window, short.lateness) == (90 * 60_000, 0)
    assert settings_of().index_profile().window is None


def test_a_scope_is_part_of_the_index() -> None:
    """Given a field of scopes, then the index has scopes, and its profile says so."""
    assert settings_of("fields.scope=tenant").index_profile().scoped
    assert not settings_of().index_profile().scoped


@pytest.mark.parametrize(
    ("assignments", "setting", "says"),
    [
        (["index.distance=256"], "index.distance", "from 0 to 255"),
        (["index.bits=100"], "index.bits", "100"),
        (["profile=classic", "index.blocks=5"], "index.blocks", "80 bits"),
        (["index.segmenter=jeiba"], "index.segmenter", "jieba-posseg"),
        (["index.weighting=bm25"], "index.weighting", "tfidf-sublinear"),
        (["index.feature_hash=md5"], "index.feature_hash", "java, xxh3"),
        (["index.window=30 days"], "index.window", "such as 30d"),
        (["index.window=0d"], "index.window", "one time"),
        (["index.window=40000d"], "index.window", "more than 36500d"),
        (["index.window=30d", "index.lateness=soon"], "index.lateness", "soon"),
        (["index.lateness=1h"], "index.lateness", "index.window"),
        (["index.same_id=update"], "index.same_id", "replace"),
    ],
)
def test_an_index_that_cannot_be(assignments: list[str], setting: str, says: str) -> None:
    """Given widths that do not fit or unknown names, then the core's reason is told."""
    assert says in problems_of(*assignments)[setting].message


def test_state_in_a_file(tmp_path: Path) -> None:
    """Given a state directory that is a file, or in one, then it is refused."""
    (file := tmp_path / "file").write_text("")
    (tmp_path / "firstseen").write_text("")

    for path in (file, tmp_path):
        problem = problems_of(f"state_dir={path}")["state_dir"]
        assert "directory" in problem.message
    assert load(f"state_dir={tmp_path / 'not' / 'yet'}").settings.state_dir.name == "yet"


def test_what_is_decided_at_once_fits_a_record() -> None:
    """Given so many documents at once that one record could not hold their verdicts, then that is
    refused with how many are possible; that many are.
    """
    message = problems_of("batch.documents=1000", "batch.packets=13")["batch.packets"].message

    assert "12697" in message
    assert settings_of("batch.documents=1000", "batch.packets=12").batch.packets == 12


def test_a_whole_batch_may_be_in_flight() -> None:
    """Given fewer documents in flight than a batch has, then that is refused."""
    problems = problems_of("in_flight.documents=10", "batch.documents=11")

    assert "batch.documents" in problems["in_flight.documents"].message
