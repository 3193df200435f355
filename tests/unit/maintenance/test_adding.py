"""What a load that moves the window refuses."""

from __future__ import annotations

import pytest

from simhash_core.errors import UsageError
from simhash_core.log.records import NO_OFFSET, Chain, ChainHeads, Control, Progress
from simhash_core.log.replica import Replica
from streams.maintenance.index_topics import NOTHING, LogState, ShardHead
from streams.maintenance.loading import _refuse_in_flight
from streams.store.changelog_codec import LoggedProgress

CHAINS = [Chain("raw", "id", partition) for partition in range(2)]
NEXT = 5


def log_with(*heads: int) -> LogState:
    replica = Replica(10, 10)
    chain_heads = ChainHeads.of(zip(CHAINS, heads, strict=True))
    replica.read(10, Control(3, "w", True, [], chain_heads, 10))
    return LogState(0, 11, replica, [])


def shards(*, has_progress: bool = True) -> list[ShardHead]:
    progress = LoggedProgress(Progress(CHAINS[1], NEXT, 10, 9), "index", "reading")
    first = LoggedProgress(Progress(CHAINS[0], NEXT, 10, 9), "index", "reading")
    return [ShardHead(0, first, 4), ShardHead(1, progress if has_progress else None, NOTHING)]


def test_an_index_whose_records_all_have_outputs_is_taken() -> None:
    _refuse_in_flight(shards(), log_with(NEXT - 1, NEXT - 1))
    _refuse_in_flight(shards(has_progress=False), log_with(NEXT - 1, NO_OFFSET))


@pytest.mark.parametrize(("has_progress", "head"), [(True, NEXT), (False, 0)])
def test_a_record_in_the_log_without_an_output_is_refused(has_progress: bool, head: int) -> None:
    with pytest.raises(UsageError, match="without an output"):
        _refuse_in_flight(shards(has_progress=has_progress), log_with(NEXT - 1, head))
