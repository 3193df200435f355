"""A new log is begun where the old one lacks what the shards have committed."""

from __future__ import annotations

import pytest

from simhash_core.log.records import NO_CONTROL, Decision, LogRecord, Progress
from streams.maintenance import new_log
from streams.maintenance.index_topics import LogState, ShardHead
from streams.settings.settings import Settings
from streams.store.changelog_codec import LoggedProgress
from tests.unit.core.log.made_to_order import FAR, bundle_of, chain, control, replica_of

LOG: list[LogRecord] = [
    control(NO_CONTROL),
    bundle_of(FAR[:1]),
    control(0, [Decision(1, [])]),
    bundle_of(FAR[:1], 5),
]
SHARD = ShardHead(0, LoggedProgress(Progress(chain(0), 1, 2, 0), "", ""), 1)


@pytest.mark.parametrize(("kept", "will_do"), [(4, True), (3, True), (2, False), (1, False)])
def test_a_log_will_not_do_that_has_lost_its_last_records(
    monkeypatch: pytest.MonkeyPatch, kept: int, will_do: bool
) -> None:
    replica, _ = replica_of(LOG[:kept])
    monkeypatch.setattr(new_log, "read_log", lambda *_: LogState(0, kept, replica, []))
    assert new_log._will_do(Settings(), "", [SHARD]) is will_do
