"""Windows: only documents with near times are compared, and older ones are forgotten."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.errors import ProtocolError, UsageError
from simhash_core.index.look_up import Nearness
from simhash_core.log.local_decider import MemoryEntries
from simhash_core.log.participant import Participant
from simhash_core.log.records import (
    NO_CONTROL,
    Bundle,
    ChainHeads,
    Control,
    Decision,
    Horizons,
    LogClock,
    Packet,
    Progress,
    Sender,
    sequence_number,
)
from simhash_core.window import DURATION_MS_MAX, SLICES, Window, format_duration, parse_duration
from tests.unit.core.log.made_to_order import CHAIN, SCHEME, Made, columns_of
from tests.unit.core.log.one_worker import OneWorker, Story, doc

WIDE = Nearness(SCHEME, None, 100, 1_000)
NARROW = Nearness(SCHEME, None, 100)
STORIES = {
    "near are documents within the window": Story(
        WIDE, ["a=snow@5000: a unique", "b=snow@5100: b like a"], 1
    ),
    "documents further apart are not": Story(
        WIDE, ["a=snow@5000: a unique", "b=snow@5101: b unique"], 2
    ),
    "the earlier document may come later": Story(
        WIDE, ["a=snow@5000: a unique", "b=snow@4900 c=snow@4700: b like a, c unique"], 2
    ),
    "two documents of one content may both be unique": Story(
        Nearness(SCHEME, None, 10, 1_000),
        ["a=snow@100 b=snow@200 c=snow@205: a unique, b unique, c like b"],
        2,
    ),
    "a late document meets what has not expired": Story(
        NARROW,
        [
            "a=snow@1000: a unique",
            "b=rain@2000: b unique",
            "c=snow@1000: c unique",
            "d=snow@1010: d like c",
        ],
        3,
    ),
    "the watermark is the same after a restart": Story(
        NARROW,
        ["a=snow@1000: a unique", "b=rain@2000: b unique", "restart", "c=snow@1000: c unique"],
        3,
    ),
    "a wrong date expires nothing": Story(
        Nearness(SCHEME, None, 100, 100),
        ["a=snow@4950: a unique", f"b=rain@{1 << 50}: b unique", "c=snow@4960: c like a"],
        2,
        now_ms=5_000,
    ),
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_stories_of_windows(story: Story) -> None:
    story.check()


def test_what_has_expired_is_forgotten_and_not_before() -> None:
    worker = OneWorker(Nearness(SCHEME, None, 1_200, 400))
    for number in range(40):
        worker.says(doc(f"d{number}", f"text {number} long", 100 * number))
        oldest = max(0, 100 * number - 1_600 - 200)
        kept = [100 * each for each in range(number + 1)]
        expected = sum(each >= oldest for each in kept)
        assert expected - 2 <= worker.participant.index.documents(0) <= expected
    assert worker.expired_before > sequence_number(0, 0)


def read_into(horizons: Horizons, times_ms: list[int], first: int = 0) -> Horizons:
    for offset, time_ms in enumerate(times_ms, first):
        horizons.bundle(offset, columns_of([doc("a", "text", time_ms)]), 1 << 40)
    return horizons


def test_horizon_is_the_first_bundle_that_is_sixteen_slices_back() -> None:
    slices = [window.slice_ms for window in (Window(1_000, 600), Window(1_000, 601), Window(0, 0))]
    assert slices == [100, 101, 1]
    horizons = read_into(Horizons(Window(16, 0)), [*range(40)])
    horizons.bundle(40, columns_of([doc("a", time_ms=500)]), 1 << 40)  # deletes do not count
    assert [horizons.at(each) for each in (0, SLICES, SLICES + 1, 39)] == [0, 0, 1, 39 - SLICES]
    assert horizons.before(20) == LogClock(19, [(each, each) for each in range(3, 20)])
    before = [horizons.before(each) for each in range(20, 42)]
    assert before[-1] == before[-2]
    horizons.forget_before(20)
    assert [horizons.before(each) for each in range(20, 42)] == before
    with pytest.raises(ProtocolError, match="no longer kept"):
        horizons.before(19)


def test_reading_goes_on_from_a_clock() -> None:
    times_ms = [offset * 3 % 31 for offset in range(30)]
    whole = read_into(Horizons(Window(16, 0)), times_ms)
    resumed = read_into(Horizons(Window(16, 0), whole.before(12)), times_ms[12:], 12)
    for offset in range(12, 30):
        assert resumed.at(offset) == whole.at(offset)
    assert resumed.before(25) == whole.before(25)


def test_worker_without_shards_lets_nothing_expire_too_early() -> None:
    participant: Participant[Made] = Participant("worker", Nearness(SCHEME, None, 16, 0))
    participant.add_shard(Progress(CHAIN, 0, 0, NO_CONTROL), MemoryEntries())
    participant.begin(0)
    participant.drop_shard(0)
    bundles = 40
    for offset in range(bundles):
        columns = columns_of([doc(f"d{offset}", "text", offset)], offset)
        packet = Packet(CHAIN, Sender("other", offset), offset - 1, offset, columns)
        participant.read(offset, Bundle.of([packet]), 1 << 40)
    for decided in range(20):
        offset = bundles + decided
        previous = offset - 1 if decided else NO_CONTROL
        decisions, heads = [Decision(decided, [])], ChainHeads.of([(CHAIN, decided)])
        control = Control(previous, "other.1", False, decisions, heads, decided + 1)
        participant.read(offset, control, 1 << 40)
        assert participant.index.dropped_before == sequence_number(max(0, decided - SLICES), 0)


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [("30d", 2_592_000_000), ("12h", 43_200_000), ("90m", 5_400_000), ("45s", 45_000), ("7ms", 7)],
)
def test_units_of_durations(text: str, duration_ms: int) -> None:
    assert parse_duration(text) == duration_ms
    told = [format_duration(parse_duration(each)) for each in ("48h", "36h", "0s")]
    assert told == ["2d", "36h", "0d"]


@pytest.mark.parametrize(
    "text", ["", "30", "d", "-1d", "1.5d", "30 d", "30D", "1w", "36501d", "٣d"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_duration(text)


@given(st.integers(0, DURATION_MS_MAX))
def test_a_duration_has_one_text(duration_ms: int) -> None:
    text = format_duration(duration_ms)
    assert parse_duration(text) == duration_ms
    assert format_duration(parse_duration(f"{duration_ms}ms")) == text
