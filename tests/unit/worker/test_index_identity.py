"""What differs between an index and a worker's settings is named, and nothing else."""

from __future__ import annotations

import msgspec
import pytest

from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import DEFAULT_PROFILE, profile_named
from streams.documents.fields import FieldSettings
from streams.errors import ExitCode, exit_code_of
from streams.settings.loader import load_settings
from streams.settings.settings import Settings
from streams.worker.index_on_kafka import (
    Claim,
    Difference,
    OtherSettingsError,
    differences,
    read_claim,
    reading_rules,
    refuse_other_settings,
)
from tests.rigs.brokers.broker import Broker
from tests.unit.store.changelog import PARTITION, ChangelogTopic
from tests.unit.store.samples import INDEX, progress_of
from tests.unit.store.samples import READING as SAMPLE_READING

CLASSIC = Fingerprinter(profile_named("classic")).identity
READING = reading_rules(Settings())
OTHERS = {
    "index.distance=40": (
        f"index.distance: there {profile_named(DEFAULT_PROFILE).distance}, here 40"
    ),
    "index.bands=14": "index.bands: there",
    "index.blocks=16": "index.blocks",
    "index.feature_hash=java": "index.feature_hash: there xxh3, here java",
    "index.fold_traditional=true": "index.fold_traditional: there none",
    "index.long_characters=0": "index.long_characters: there",
    "index.min_features=20": "index.min_features",
    "index.same_id=replace": "index.same_id: there none, here replace",
    "index.segmenter=ngrams": "index.segmenter",
    "index.short_texts=pass": "index.short_texts: there none, here pass",
    "index.verify_at=0.7": "index.verify_at: there",
    "index.weighting=tfidf": "index.weighting: there",
    "fields.text=body": "fields.text: there text, here body",
    "fields.id=url": "fields.id: there id, here url",
    "fields.title=headline": "fields.title: there title, here headline",
    "fields.references=links": "fields.references: there references, here links",
    "fields.timestamp=at": "fields.timestamp: there timestamp, here at",
    "fields.scope=tenant": "fields.scope: there none, here tenant",
    "fields.format=text": "fields.format: there auto, here text",
    "max_record_bytes=2048": "max_record_bytes: there 1048576, here 2048",
}
"""Settings that an index depends on, with what is said of each."""


def test_the_same_settings_do_not_differ() -> None:
    """Given an index with the settings of this worker, or none yet, then nothing is refused."""
    claim = Claim(CLASSIC, READING, 7, 5)

    assert differences(claim, CLASSIC, READING) == []
    refuse_other_settings(claim, CLASSIC, READING, "the index")
    refuse_other_settings(None, CLASSIC, READING, "the index")


def test_windows_same_ids_and_scopes_are_part_of_the_identity() -> None:
    """Given an index with them, then its identity says so, behind what it says without; and a
    worker without them names the settings.
    """
    more = msgspec.structs.replace(
        profile_named("classic"), window=2_592_000_000, same_id="replace", scoped=True
    )
    identity = Fingerprinter(more).identity

    assert identity == f"{CLASSIC} window=30d lateness=1d same-id=replace scoped=yes"
    assert [
        each.setting for each in differences(Claim(identity, READING, 7, 5), CLASSIC, READING)
    ] == [
        "index.window",
        "index.lateness",
        "index.same_id",
        "fields.scope",
    ]


def test_folding_and_passing_short_texts_are_part_of_the_identity() -> None:
    """Given an index with them, then a worker without them names the settings."""
    more = msgspec.structs.replace(
        profile_named("classic"), fold_traditional=True, short_texts="pass"
    )
    identity = Fingerprinter(more).identity

    assert identity.endswith(" short-texts=pass")
    assert [
        each.setting for each in differences(Claim(identity, READING, 7, 5), CLASSIC, READING)
    ] == ["index.fold_traditional", "index.short_texts"]


def test_only_what_differs_is_named() -> None:
    """Given another distance and another text field, then the error names both settings with both
    values, says how to go on, ends with the code of configuration, and names nothing else.
    """
    claim = Claim(CLASSIC.replace("distance=3", "distance=2"), READING, 7, 5)
    ours = reading_rules(Settings(fields=FieldSettings(text="data body=1")))

    with pytest.raises(OtherSettingsError) as caught:
        refuse_other_settings(claim, CLASSIC, ours, "the index of application 'news'")

    assert caught.value.differences == [
        Difference("index.distance", "2", "3"),
        Difference("fields.text", "text", "data body=1"),
    ]
    said = str(caught.value)
    assert "index.distance: there 2, here 3" in said
    assert "fields.text: there text, here data body=1" in said
    assert "the index of application 'news'" in said
    assert "application_id" in said
    assert "segmenter" not in said
    assert exit_code_of(caught.value) is ExitCode.CONFIGURATION


@pytest.mark.parametrize(("setting", "said"), OTHERS.items())
def test_each_setting_of_an_index_is_named(setting: str, said: str) -> None:
    """Given an index with the default settings, when a worker has one other that the index depends
    on, then that one alone is named.
    """
    default, ours = (
        load_settings(assignments=assignments, environ={}).settings
        for assignments in ([], [setting])
    )
    theirs, identity = (Fingerprinter(each.index_profile()).identity for each in (default, ours))
    claim = Claim(theirs, reading_rules(default), 7, 5)

    with pytest.raises(OtherSettingsError) as caught:
        refuse_other_settings(claim, identity, reading_rules(ours), "the index")

    assert said in str(caught.value)
    assert str(caught.value).count(": there ") == 1


def test_a_part_that_one_side_lacks() -> None:
    """Given a part that only one of the identities has, as that of the confirmation, then the
    other side's value is none.
    """
    wide = Fingerprinter(profile_named("wide")).identity

    found = {
        each.setting: each for each in differences(Claim(CLASSIC, READING, 0, -1), wide, READING)
    }

    assert found["index.verify, index.verify_at"].theirs == "none"
    assert found["index.bits"] == Difference("index.bits", "64", "256")


def test_each_part_of_an_identity_has_its_settings() -> None:
    """Given the identities of the profiles, then each part but the normalisation, which is the
    program's, is named by settings.
    """
    for name in ("classic", "wide"):
        identity = Fingerprinter(profile_named(name)).identity
        other = " ".join(f"{part}-other" for part in identity.split(" "))
        named = [each.setting for each in differences(Claim(other, "", 0, -1), identity, "")]
        assert [each for each in named if not each.startswith("index.")] == [
            "format",
            "normalization",
        ]


def test_the_claim_of_an_index_is_read(embedded_broker: Broker) -> None:
    """Given a changelog, then the claim is what its last progress record says; of a shard without
    one there is none.
    """
    topic = ChangelogTopic(embedded_broker)
    topic.commit(range(3))
    last = progress_of(2).progress

    claim = read_claim(topic.name, topic.config, 30.0, PARTITION)

    assert claim == Claim(INDEX, SAMPLE_READING, last.position, last.control)
    assert read_claim(topic.name, topic.config, 30.0) is None
