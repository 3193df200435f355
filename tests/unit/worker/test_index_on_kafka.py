"""The settings that differ from those of an index, and the transactions that a worker aborts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from confluent_kafka import KafkaError, KafkaException

from simhash_core.documents import Headers, TopicPartition
from simhash_core.log.records import NO_CONTROL, Chain, Progress
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import profile_named
from streams.documents.fields import FieldSettings
from streams.errors import (
    BrokerRefusedError,
    BrokerUnavailableError,
    ExitCode,
    StateMismatchError,
    exit_code_of,
)
from streams.kafka.clients import Consumer, Producer, offset_range
from streams.settings.loader import load_settings
from streams.settings.settings import Delivery, Settings
from streams.store.changelog_codec import LoggedProgress
from streams.topics import consumer_group as listing
from streams.topics.group_description import ListedGroup, ListedMember
from streams.topics.watermarks import BrokerWatermarks, Watermarks
from streams.worker import index_on_kafka
from streams.worker.index_on_kafka import (
    Claim,
    Difference,
    IndexOnKafka,
    OtherSettingsError,
    differences,
    other_outputs,
    reading_rules,
    refuse_other_identity,
    refuse_other_log,
    refuse_other_owner,
)
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.loopback_ports import free_port

CLASSIC = Fingerprinter(profile_named("classic")).identity
READING = reading_rules(Settings())
OTHERS = (
    *("index.distance=40", "index.band_bins=2", "index.bands=14", "index.blocks=16"),
    *("index.feature_hash=java", "index.fold_traditional=true", "index.long_characters=0"),
    *("index.mean_at=0.7", "index.min_features=20", "index.same_id=replace"),
    *("index.segmenter=ngrams", "index.short_texts=pass", "index.verify_at=0.7"),
    *("index.weighting=tfidf", "fields.text=body", "fields.id=url", "fields.title=headline"),
    *("fields.references=links", "fields.timestamp=at", "fields.scope=tenant"),
    *("fields.format=text", "max_record_bytes=2048"),
)
"""Settings that an index depends on."""


def named(identity: str, ours: str = CLASSIC, reading: str = READING) -> list[str]:
    return [each.setting for each in differences(Claim(identity, reading, 7, 5), ours, reading)]


def test_the_same_settings_are_not_refused() -> None:
    assert named(CLASSIC) == []
    refuse_other_identity(CLASSIC, CLASSIC, "the index")


def test_parts_that_not_every_index_has_stand_at_the_end_of_the_identity() -> None:
    changes = {"window": 2_592_000_000, "same_id": "replace", "scoped": True}
    profile = msgspec.structs.replace(
        profile_named("classic"), fold_traditional=True, short_texts="pass", **changes
    )
    identity = Fingerprinter(profile).identity
    more = "window=30d lateness=1d same-id=replace scoped=yes short-texts=pass"
    assert identity == f"{CLASSIC} folding=simplified-ab3585e845d5 {more}"
    assert named(identity) == [
        *("index.fold_traditional", "index.window", "index.lateness", "index.same_id"),
        *("fields.scope", "index.short_texts"),
    ]


def test_only_what_differs_is_named_with_both_values() -> None:
    theirs = CLASSIC.replace("distance=3", "distance=2") + " mean=0.7"
    ours = reading_rules(Settings(fields=FieldSettings(text="data body=1")))
    different = [Difference("index.distance", "2", "3"), Difference("index.mean_at", "0.7", "none")]

    with pytest.raises(OtherSettingsError) as caught:
        refuse_other_identity(theirs, CLASSIC, "the index of application 'news'")

    assert caught.value.differences == different
    assert differences(Claim(theirs, READING, 7, 5), CLASSIC, ours) == [
        *different,
        Difference("fields.text", "text", "data body=1"),
    ]
    said = str(caught.value)
    assert "index.distance: there 2, here 3" in said
    assert "the index of application 'news'" in said
    assert "application_id" in said
    assert exit_code_of(caught.value) is ExitCode.CONFIGURATION


@pytest.mark.parametrize("setting", OTHERS)
def test_each_setting_of_an_index_is_named_alone(setting: str) -> None:
    default, ours = (
        load_settings(assignments=assignments, environ={}).settings
        for assignments in ([], [setting])
    )
    theirs, identity = (Fingerprinter(each.index_profile()).identity for each in (default, ours))
    claim = Claim(theirs, reading_rules(default), 7, 5)
    (found,) = differences(claim, identity, reading_rules(ours))
    assert setting.partition("=")[0] in found.setting.split(", ")


@pytest.mark.parametrize("profile", ["classic", "wide"])
def test_each_part_of_an_identity_but_the_programs_own_has_its_settings(profile: str) -> None:
    identity = Fingerprinter(profile_named(profile)).identity
    other = " ".join(f"{part}-other" for part in identity.split(" "))
    nameless = [each for each in named(other, identity, "") if not each.startswith("index.")]
    assert nameless == ["format", "normalization"]


def owned_by(writer: str, topic: str = "raw-documents") -> LoggedProgress:
    progress = Progress(Chain(topic, "id", 0), 0, 0, NO_CONTROL)
    return LoggedProgress(progress, CLASSIC, READING, writer)


@pytest.mark.parametrize("writer", ["news.4f1c", "news.eu.1", ""])
def test_the_index_of_this_application_is_not_refused(writer: str) -> None:
    refuse_other_owner(owned_by(writer), Settings(application_id="news"), "the index")


def test_the_index_of_another_raw_topic_is_refused() -> None:
    with pytest.raises(OtherSettingsError, match=r"topics\.raw: there crawl, here raw-documents"):
        refuse_other_owner(owned_by("news.4f1c", "crawl"), Settings(), "the index")


def test_the_changelog_of_another_application_is_refused() -> None:
    with pytest.raises(StateMismatchError, match="set application_id=newspapers to continue"):
        refuse_other_owner(owned_by("newspapers.4f1c"), Settings(application_id="news"), "it")


@pytest.mark.parametrize("writer", ["news.4f1c.1", "news.eu.1.7", "care.0a1b", None])
def test_the_log_of_this_application_is_not_refused(writer: str | None) -> None:
    refuse_other_log(writer, Settings(application_id="news"))


def test_the_log_of_another_application_is_refused() -> None:
    with pytest.raises(StateMismatchError, match=r"another application \(newspapers\.4f1c\.1\)"):
        refuse_other_log("newspapers.4f1c.1", Settings(application_id="news"))


# ---- open transactions of writers that have left the group

THIS = "firstseen.this"
PROGRESS = Progress(Chain("raw", "id", 0), 0, 0, NO_CONTROL)


class Group:
    def __init__(self) -> None:
        self.members: set[str] = {THIS}
        self.last_writers: Mapping[int, str] = {}
        self.aborted: list[str] = []
        self.listed = 0
        self.error: KafkaException | None = None
        self.has_open = False

    def list(self, *_: object) -> ListedGroup:
        self.listed += 1
        if self.error is not None:
            raise self.error
        return ListedGroup(True, [ListedMember(name, name, "host", b"") for name in self.members])

    def last_progress(self, _: str, partitions: set[int], *__: object) -> dict[int, LoggedProgress]:
        return {
            each: LoggedProgress(PROGRESS, "identity", "reading", writer)
            for each, writer in self.last_writers.items()
            if each in partitions
        }

    async def abort(self, _: object, writer: str, __: float) -> None:
        self.aborted.append(writer)

    def watermarks(
        self, partitions: Sequence[TopicPartition], *, starts: bool
    ) -> dict[TopicPartition, Watermarks]:
        assert not starts
        return {each: Watermarks(0, 1, 1 + self.has_open) for each in partitions}


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Group:
    group = Group()
    monkeypatch.setattr(listing, "listed_group", group.list)
    monkeypatch.setattr(listing, "_GROUP_SECONDS", 0.0)
    monkeypatch.setattr(index_on_kafka, "last_progress", group.last_progress)
    monkeypatch.setattr(index_on_kafka, "abort_left_open", group.abort)
    monkeypatch.setattr(BrokerWatermarks, "of", group.watermarks)
    return group


def index(**changes: Any) -> IndexOnKafka:  # noqa: ANN401 - settings of several types
    """Return the index as this worker sees it, without connections."""
    return IndexOnKafka(Settings(brokers="127.0.0.1:1", **changes), "identity", "reading", THIS)


async def test_a_member_that_left_without_a_commit_is_aborted_once(group: Group) -> None:
    of = index()
    group.members = {THIS, "firstseen.first"}
    await of.remember_members()
    group.members = {THIS, "firstseen.first", "firstseen.second"}
    await of.abort_left_open([0])  # an opening notes the members too
    assert group.aborted == []

    group.members = {THIS}
    for _ in range(2):
        await of.abort_left_open([0])
        assert group.aborted == ["firstseen.first", "firstseen.second"]


async def test_only_former_members_and_last_writers_that_have_left_are_aborted(
    group: Group,
) -> None:
    group.last_writers = {0: THIS, 1: "firstseen.there", 2: "firstseen.left", 4: ""}
    group.members = {THIS, "firstseen.there", "firstseen.former"}
    of = index()
    await of.remember_members()
    group.members = {THIS, "firstseen.there"}
    await of.abort_left_open(range(5))
    assert group.aborted == ["firstseen.former", "firstseen.left"]


async def test_a_killed_command_that_no_worker_has_seen_is_aborted(group: Group) -> None:
    group.members = {THIS}
    await index().abort_left_open([0])
    assert group.aborted == []
    group.has_open = True
    group.members = {THIS, "firstseen.index-new-log"}  # this one still runs
    await index().abort_left_open([0])
    assert group.aborted == ["firstseen.index-load"]


@pytest.mark.parametrize("members", [set(), {"firstseen.other"}])
async def test_a_group_without_this_worker_is_not_believed(group: Group, members: set[str]) -> None:
    """Its coordinator may be moving; otherwise transactions of live workers would be aborted."""
    group.last_writers = {0: "firstseen.there"}
    group.members = members
    with pytest.raises(BrokerUnavailableError, match=r"worker, firstseen\.this, is not among"):
        await index().abort_left_open([0])
    assert group.aborted == []


async def test_a_broker_that_does_not_answer_fails_an_opening_only(group: Group) -> None:
    group.error = KafkaException(KafkaError(KafkaError._TRANSPORT))
    await index().remember_members()
    with pytest.raises(BrokerUnavailableError, match="unknown whether other workers"):
        await index().abort_left_open([0])


async def test_without_transactions_the_group_is_not_listed(group: Group) -> None:
    of = index(delivery=Delivery.AT_LEAST_ONCE)
    await of.remember_members()
    await of.abort_left_open([0])
    assert group.listed == 0


async def test_only_the_members_seen_last_are_remembered(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_on_kafka, "_MEMBERS_MAX", 3)
    of = index()
    for number in range(5):
        group.members = {THIS, f"firstseen.w{number}"}
        await of.remember_members()
    group.members = {THIS}
    await of.abort_left_open([])
    assert group.aborted == ["firstseen.w3", "firstseen.w4"]


async def test_a_member_that_is_no_worker_is_named_when_it_comes_and_never_aborted(
    group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    """A producer of another program may have its name as a transactional id."""
    of = index()
    group.members = {THIS, "firstseen-crawler"}
    for _ in range(2):
        await of.remember_members()
    assert caplog.text.count("named firstseen-crawler") == 1
    group.members = {THIS}
    await of.abort_left_open([0])
    assert group.aborted == []
    group.members = {THIS, "firstseen-crawler"}  # it comes back
    await of.remember_members()
    assert caplog.text.count("named firstseen-crawler") == 2


# ---- the owner of the records on output topics

OURS: Headers = (("firstseen-verdict", b"unique"), ("firstseen-application", b"app"))
UNNAMED: Headers = (("trace", b"1"), ("firstseen-verdict", b"duplicate"))
THEIRS: Headers = (*UNNAMED, ("firstseen-application", b"news"))


def topic_with(broker: Broker, records: Sequence[Headers]) -> tuple[str, Settings]:
    """Return a topic with records in its partition 1, and the settings of an application."""
    topic = broker.new_topic("unique", 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for headers in records:
        producer.produce(topic, b"", partition=1, headers=[*headers])
    assert producer.flush(30) == 0
    return topic, Settings(application_id="app", brokers=broker.bootstrap_servers)


@pytest.mark.parametrize(
    ("records", "whose"),
    [
        ([], None),
        ([(), (("trace", b"1"),)], None),
        ([OURS], None),
        ([THEIRS], "news"),
        ([UNNAMED], ""),
        ([()] * 150 + [THEIRS], "news"),
    ],
    ids=["empty", "of others", "own", "another's", "unnamed", "at the end"],
)
def test_records_of_another_application_are_found(
    broker: Broker,
    records: list[Headers],
    whose: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic, settings = topic_with(broker, records)
    empty = broker.new_topic("duplicates")
    found = other_outputs(settings, {empty: 1, topic: 2})
    assert (found and found.application) == whose
    assert ("the index was dropped or lost" in caplog.text) is (records == [OURS])
    if found is not None:
        assert str(found.position).startswith(f"{topic}/1@")
        assert f"set application_id={whose or '…'}" in found.refusal(settings)


def test_records_that_were_never_committed_are_nobodys(kafka_broker: Broker) -> None:
    topic = kafka_broker.new_topic("unique")
    producer = kafka_broker.transactional_producer()
    producer.begin_transaction()
    producer.produce(topic, b"", headers=[*THEIRS])
    producer.flush(30)
    settings = Settings(application_id="app", brokers=kafka_broker.bootstrap_servers)
    assert other_outputs(settings, {topic: 1}) is None
    producer.abort_transaction(30)
    assert other_outputs(settings, {topic: 1}) is None


def test_end_that_a_broker_does_not_tell_in_time_is_asked_for_again(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This happens in a failover, if the request went to a broker that is down."""
    topic, settings = topic_with(broker, [THEIRS])
    asked: list[float] = []

    def silent_at_first(
        consumer: Consumer, topic: str, partition: int, seconds: float
    ) -> tuple[int, int]:
        asked.append(seconds)
        if len(asked) == 1:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return offset_range(consumer, topic, partition, seconds)

    monkeypatch.setattr(index_on_kafka, "offset_range", silent_at_first)
    found = other_outputs(settings, {topic: 2})
    assert found is not None
    assert found.application == "news"
    assert len(asked) == 3
    assert max(asked) < settings.send_timeout_seconds, "no request takes all of the time"


def test_outputs_that_no_broker_returns_are_not_taken_for_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = Settings(brokers=f"127.0.0.1:{free_port()}", send_timeout_seconds=1)
    with pytest.raises(BrokerUnavailableError, match="output topics"):
        other_outputs(settings, {"unique": 1})
    refusal = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    monkeypatch.setattr(index_on_kafka, "offset_range", Mock(side_effect=refusal))
    with pytest.raises(BrokerRefusedError, match="output topics cannot be read"):
        other_outputs(settings, {"unique": 1})
