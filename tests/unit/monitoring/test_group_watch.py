"""The state of the group in a worker: notes with offsets, and the broker's description."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from streams.monitoring.group_watch import (
    EVERY_SECONDS,
    METADATA_BYTES_LIMIT,
    Group,
    GroupWatch,
    OffsetMetadataWriter,
    decode_offset_metadata,
)
from streams.topics.consumer_group import GroupState, Member
from tests.rigs.manual_clock import ManualClock
from tests.unit.formats.internal_samples import PAGE


@dataclass
class Broker:
    """A group whose state a test sets; counts how often it is read."""

    state: GroupState
    reads: int = 0

    def read(self) -> GroupState:
        self.reads += 1
        return self.state


def watched(state: GroupState) -> Group:
    watch = GroupWatch(Broker(state).read)
    assert watch.group() is None
    watch.refresh()
    group = watch.group()
    assert group is not None
    return group


def note(worker: str, **documents: int) -> str:
    return OffsetMetadataWriter(worker, f"http://{worker}/").note(documents)


def test_note_counts_its_own_commit_and_those_that_succeeded() -> None:
    notes = OffsetMetadataWriter("a", "http://a/")
    notes.note({"unique": 7})  # this commit fails
    first = decode_offset_metadata(notes.note({"unique": 7, "dead_letter": 1}))
    notes.committed({"unique": 7, "dead_letter": 1})
    second = decode_offset_metadata(notes.note({"unique": 2}))
    assert first is not None
    assert second is not None
    assert first.documents == {"unique": 7, "dead_letter": 1}
    assert second.documents == {"unique": 9, "dead_letter": 1}
    assert (second.worker, second.page) == ("a", "http://a/")


def test_note_that_a_broker_would_refuse_is_empty() -> None:
    assert OffsetMetadataWriter("a", "http://" + "a" * METADATA_BYTES_LIMIT).note({}) == ""


def test_note_in_the_formats_page_is_read_and_written_the_same() -> None:
    section = PAGE.partition("### Beside committed offsets")[2].partition("\n## ")[0]
    text = section.partition("```json\n")[2].partition("\n```")[0]
    note = decode_offset_metadata(text)
    assert note is not None
    assert note.documents["unique"] == 880
    assert msgspec.json.encode(note).decode() == text


def test_texts_of_other_programs_are_no_notes() -> None:
    for text in (None, "", "lag=3", "{}", '{"worker": 1}', "[" * 5000):
        assert decode_offset_metadata(text) is None


def test_group_is_the_members_with_their_latest_notes() -> None:
    members = [Member("b", "10.0.0.2", (1,)), Member("a", "10.0.0.1", (0, 2))]
    texts = {
        0: note("a", unique=1),
        1: note("gone", unique=1000),
        2: note("a", unique=5, near_duplicate=2),
    }
    group = watched(GroupState(members, 3, texts, 17))
    assert [(each.name, each.partitions) for each in group.workers] == [("a", (0, 2)), ("b", (1,))]
    first, second = (each.note for each in group.workers)
    assert first is not None
    assert first.documents == {"unique": 5, "near_duplicate": 2}
    assert second is None
    assert (group.described, group.lag, group.partitions) == (True, 17, 3)


def test_notes_name_the_workers_where_the_broker_describes_no_group() -> None:
    group = watched(GroupState(None, 2, {0: note("a", unique=1), 1: "x"}, None))
    assert [(each.name, each.partitions) for each in group.workers] == [("a", (0,))]
    assert not group.described


def test_broker_is_asked_only_while_somebody_looks() -> None:
    clock = ManualClock()
    broker = Broker(GroupState([], 1, {}, 0))
    watch = GroupWatch(broker.read, clock)
    watch.refresh()
    assert broker.reads == 0
    watch.group()
    for _ in range(4):
        watch.refresh()
    assert broker.reads == 1
    clock.now += EVERY_SECONDS
    watch.refresh()
    assert broker.reads == 2
    clock.now += 1000
    watch.refresh()
    assert broker.reads == 2
    assert watch.group() is None, "what was read for an earlier visitor is old"
    watch.refresh()
    assert broker.reads == 3
    assert watch.group() == watched(broker.state)._replace(age_seconds=0.0)
