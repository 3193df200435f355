"""Every reader refuses progress that goes back, with any sizes of batches."""

from __future__ import annotations

import logging
from contextlib import closing
from functools import reduce
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from simhash_core.log.records import Chain, Progress
from streams.store.changelog_codec import (
    ChangelogRecord,
    LoggedProgress,
    encode_progress,
    furthest,
    goes_back,
)
from streams.store.lineage import UNKNOWN, Lineage
from streams.store.recovery import load_batch, load_next
from streams.store.row_store import StoreAheadError
from streams.store.shard_store import ShardStore
from tests.unit.store.samples import CHAIN, INDEX, READING, batch_of, memory_store

AFTER_LOSS = CHAIN.after_loss()
CREATED_AGAIN = Chain(CHAIN.topic, "another topic id", CHAIN.partition)
COMMAND = ""

logged = st.builds(
    lambda chain, following, position, writer, expired: LoggedProgress(
        Progress(chain, following, position, position - 1), INDEX, READING, writer, expired
    ),
    st.sampled_from([CHAIN, CHAIN, CHAIN, AFTER_LOSS, CREATED_AGAIN]),
    st.integers(0, 5),
    st.integers(0, 3),
    st.sampled_from(["worker-1", "worker-2", "worker-2", COMMAND]),
    st.integers(0, 3).map(lambda packet: packet << 16),
)


def at(
    following: int, position: int = 0, *, writer: str = "worker-1", chain: Chain = CHAIN
) -> LoggedProgress:
    return LoggedProgress(Progress(chain, following, position, -1), INDEX, READING, writer)


def load(store: ShardStore, records: list[ChangelogRecord]) -> None:
    batch = batch_of(records, range(store.changelog_offset, store.changelog_offset + len(records)))
    load_batch(store, batch, batch.decoded(), INDEX)


@given(records=st.lists(logged, min_size=1, max_size=12), data=st.data())
def test_furthest_counts_in_any_batches(records: list[LoggedProgress], data: st.DataObject) -> None:
    """A store that reads in any batches finds the same progress as a search for the last one."""
    cuts = data.draw(st.sets(st.integers(0, len(records))))
    wanted, refused = records[0], 0
    for each in records[1:]:
        refused += goes_back(each, wanted.progress)
        wanted = furthest(wanted, [each]) or wanted
    with closing(memory_store()) as store:
        for first, end in pairwise(sorted({0, len(records)} | cuts)):
            load(store, [encode_progress(each) for each in records[first:end]])
        stored = store.progress()
    assert stored is not None
    assert stored.progress == wanted.progress
    assert stored.expired_before == max(each.expired_before for each in records)
    assert store.progress_refused == refused
    assert furthest(None, records) == wanted
    chains = {each.progress.chain for each in records}
    if len(chains) == 1 and all(each.writer != COMMAND for each in records):
        best = max((each.progress.next, each.progress.position) for each in records)
        assert (stored.progress.next, stored.progress.position) == best


def test_progress_that_goes_back_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """A worker that pauses while it sends may write it, after the next owner has sent."""
    with closing(memory_store()) as store, caplog.at_level(logging.WARNING):
        load(store, [encode_progress(at(4, writer="next"))])
        for following in (2, 3):
            load(store, [encode_progress(at(following))])
    (warning,) = caplog.messages
    assert "worker-1 has written progress that goes back, raw offset 2 after 4" in warning


@pytest.mark.parametrize(
    ("read", "is_refused"),
    [
        (at(9, 6), True),
        (at(10, 4), True),
        (at(10, 5), False),
        (at(10, 6), False),
        (at(11, 2), False),
        # A command begins a new log, and a topic that was created again starts from 0.
        (at(9, 9, writer=COMMAND), False),
        (at(0, 3, chain=CREATED_AGAIN), False),
        # Brokers lost records from 8 on, and a former owner has not noticed it.
        (at(8, 5, chain=AFTER_LOSS), False),
    ],
)
def test_which_progress_goes_back(read: LoggedProgress, *, is_refused: bool) -> None:
    assert goes_back(read, at(10, 5).progress) is is_refused


@pytest.mark.parametrize("following", [9, 10, 12])
def test_progress_of_a_chain_that_has_ended_goes_back(following: int) -> None:
    late = at(following, 6)
    assert goes_back(late, at(10, 5, chain=AFTER_LOSS).progress)
    assert goes_back(late, at(10, 5, chain=AFTER_LOSS.after_loss()).progress)
    assert not goes_back(replace(late, writer=COMMAND), at(10, 5, chain=AFTER_LOSS).progress)


@pytest.mark.parametrize(
    ("made_by", "follows"),
    [("aab", True), ("aabc", True), ("aabbb", True), ("aac", False), ("aaccc", False), ("", True)],
    ids=["the same", "another", "more", "in its place", "some in its place", "an older release"],
)
def test_a_store_refuses_what_does_not_follow_its_last_commit(
    made_by: str, *, follows: bool
) -> None:
    """Otherwise it would have entries of a commit that brokers have lost, and lack others."""
    with closing(memory_store()) as store:
        load(store, [logged_by("aab")])
        following = batch_of([logged_by(made_by)], [store.changelog_offset - 1])
        if follows:
            load_next(store, following, INDEX)
            return
        with pytest.raises(StoreAheadError, match="does not follow its commit 3"):
            load_next(store, following, INDEX)


def logged_by(writers: str) -> ChangelogRecord:
    """Return the last progress of a shard whose commits these workers have made."""
    lineage = reduce(Lineage.next, writers, UNKNOWN)
    return encode_progress(replace(at(9), lineage=lineage))
