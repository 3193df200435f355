"""Windows: only documents with near times are compared, and older ones are forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.errors import ProtocolError, UsageError
from simhash_core.index.look_up import Nearness
from simhash_core.log.local_decider import LocalDecider, MemoryEntries
from simhash_core.log.participant import BundleLimit, Participant
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
from simhash_core.log.shard_stream import RawBatch
from simhash_core.window import DURATION_MS_MAX, SLICES, Window, format_duration, parse_duration
from tests.unit.core.log.made_to_order import CHAIN, SCHEME, Made, columns_of, packet_of


def read_into(horizons: Horizons, times_ms: list[int], first: int = 0) -> Horizons:
    for offset, time_ms in enumerate(times_ms, first):
        horizons.bundle(offset, columns_of([Made(b"", time_ms=time_ms)]), 1 << 40)
    return horizons


def test_horizon_is_the_first_bundle_that_is_sixteen_slices_back() -> None:
    slices = [window.slice_ms for window in (Window(1_000, 600), Window(1_000, 601), Window(0, 0))]
    assert slices == [100, 101, 1]
    horizons = read_into(Horizons(Window(16, 0)), [*range(40)])
    delete = Made(b"", time_ms=500, is_delete=True)
    horizons.bundle(40, columns_of([delete]), 1 << 40)  # it does not move the watermark
    assert [horizons.at(each) for each in (0, SLICES + 1, SLICES + 2, 40)] == [0, 0, 1, 39 - SLICES]
    assert horizons.before(20) == LogClock(19, [(each, each) for each in range(3, 20)])
    before = [horizons.before(each) for each in range(20, 42)]
    assert before[-1] == before[-2]
    horizons.forget_before(20)
    assert [horizons.before(each) for each in range(20, 42)] == before
    with pytest.raises(ProtocolError, match="no longer kept"):
        horizons.before(19)


def test_later_documents_of_a_bundle_do_not_expire_what_its_first_ones_need() -> None:
    nearness = Nearness(SCHEME, None, 30, 1)
    days = [[0], [30, 31, 90], [100]]
    decider = LocalDecider(nearness, store := MemoryEntries())
    originals: dict[int, int] = {}
    first = 0
    for number, times_ms in enumerate(days):
        decision = decider.decide(
            number, packet_of([Made(b"", b"x", time_ms=time_ms) for time_ms in times_ms], first)
        )
        store.add(decision.new)
        originals |= {first + row: each.source.offset for row, each in decision.matches.items()}
        first += len(times_ms)
    assert originals == {1: 0, 4: 3}


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
        columns = columns_of([Made(b"", time_ms=offset)], offset)
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


# ---- the order of what is sent


TIMES = st.lists(st.lists(st.integers(1, 60), max_size=12), min_size=1, max_size=4)


def sending(partitions: Sequence[Sequence[int | Made]], window_ms: int | None) -> Participant[int]:
    """Return a worker to which documents of those times wait in each partition."""
    worker: Participant[int] = Participant("worker", Nearness(SCHEME, None, window_ms, 0))
    for partition in range(len(partitions)):
        progress = Progress(CHAIN._replace(partition=partition), 0, 0, NO_CONTROL)
        worker.add_shard(progress, MemoryEntries())
    worker.begin(0)
    for partition, times_ms in enumerate(partitions):
        made = [each if isinstance(each, Made) else Made(b"", time_ms=each) for each in times_ms]
        columns = columns_of(made)
        offsets = range(len(times_ms))
        batch = RawBatch(offsets, offsets, columns, len(times_ms) - 1)
        worker.shards[partition].stream.add(batch)
    return worker


def bundles_of(worker: Participant[int], documents: int, until_ms: int | None) -> list[Bundle]:
    limit = BundleLimit(documents, 1 << 20)
    return [*iter(lambda: worker.bundle(limit, until_ms), None)]


def sent_times(worker: Participant[int], documents: int) -> list[list[int]]:
    return [each.columns.times_ms.tolist() for each in bundles_of(worker, documents, None)]


def test_with_a_window_a_bundle_has_the_earliest_documents() -> None:
    partitions = [[1, 2, 8, 9], [3, 4, 5], [6, 7]]
    assert sent_times(sending(partitions, 1_000), 3) == [[1, 2], [3, 4], [5, 6], [8, 9, 7]]
    assert sent_times(sending(partitions, None), 3) == [[1, 2, 8], [9, 3, 4], [5, 6, 7]]


def test_a_date_far_ahead_holds_back_its_partition_only() -> None:
    bundles = sent_times(sending([[50, 1, 2], [3, 4, 5, 6]], 1_000), 2)
    assert bundles == [[3], [4], [5], [6], [50, 1], [2]]


def test_the_documents_after_a_delete_do_not_wait_for_the_time_of_its_record() -> None:
    """With times of fields, the record of a delete has the time at which it was written."""
    late, early = (Made(b"", time_ms=time_ms, is_delete=True) for time_ms in (90, 3))
    partitions: list[list[int | Made]] = [[1, late, 4, late], [2, early, 5, 6]]
    assert sent_times(sending(partitions, 1_000), 1) == [[t] for t in (1, 2, 3, 90, 4, 5, 6, 90)]
    (before,) = bundles_of(sending(partitions, 1_000), 9, 4)
    assert before.columns.times_ms.tolist() == [1, 90, 4, 2, 3]


@given(partitions=TIMES, documents=st.integers(1, 6), until_ms=st.integers(0, 61))
def test_a_bundle_is_the_merge_of_what_waits(
    partitions: list[list[int]], documents: int, until_ms: int
) -> None:
    # None may be sent before an earlier raw offset.
    left = [[*accumulate(each, max)] for each in partitions]
    for bundle in bundles_of(sending(partitions, 1_000), documents, until_ms):
        assert 0 < len(bundle) <= documents
        parts = [(each.chain.partition, each.end - each.first) for each in bundle.segments]
        sent = [left[partition].pop(0) for partition, count in parts for _ in range(count)]
        assert max(sent) <= min((each[0] for each in left if each), default=until_ms)
    assert all(each > until_ms for times_ms in left for each in times_ms)
