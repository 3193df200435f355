"""Checks an index: the stores on this disk against the changelog, and both against the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from confluent_kafka.admin import AdminClient
from numpy.typing import NDArray

from simhash_core.errors import FirstseenError
from simhash_core.index_digest import index_digest
from streams.care.changelog_heads import shard_heads
from streams.care.index_topics import IndexTopics, committed_by, index_topics
from streams.care.local_shards import LocalShard
from streams.care.log_state import LogCutError, LogState, read_log
from streams.care.shard_comparison import Finding, compare_shard
from streams.ordering.index_identity import Claim, refuse_other_settings
from streams.settings.settings import Settings
from streams.store.segment_file import (
    SegmentDamagedError,
    SegmentOwner,
    check_columns,
    read_head,
)
from streams.store.shard_segments import segment_paths
from streams.store.shard_view import shard_view
from streams.store.store_errors import StoreCorruptError, StoreError

Report = Callable[[str, int, int], None]

_RESTORE: Final = (
    "Stop the worker and restore a checkpoint ('firstseen index restore'), or delete the store "
    "('firstseen index drop --shard'): the worker rebuilds it from the changelog"
)
_REBUILD: Final = (
    "Stop the worker and start it again: it makes the file again from the rows of the store"
)
_NEW_LOG: Final = "Stop the workers and run 'firstseen index new-log'"


class VerifiedShard(msgspec.Struct, frozen=True):
    """A shard that was compared. ``records_behind``: of its changelog, not yet in its store."""

    partition: int
    documents: int
    records_behind: int


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """What was compared, and what is wrong; ``undecided``: documents in the log without verdict."""

    application: str
    index: str
    shards: list[VerifiedShard]
    log_start: int | None
    log_end: int | None
    undecided: int | None
    findings: list[Finding]


def verify_index(
    settings: Settings,
    admin: AdminClient,
    identity: str,
    stores: Sequence[LocalShard],
    report: Report,
) -> Verified:
    """Compare everything that can be compared; safe beside workers that run. Blocking.

    Raises ``UnansweredError`` and ``BrokerUnavailableError`` where the broker says nothing, and
    ``OtherSettingsError`` for an index that was made with other settings.
    """
    findings: list[Finding] = []
    shards: list[VerifiedShard] = []
    sequences: list[NDArray[np.uint64]] = []
    for shard in stores:
        try:
            with shard_view(shard.path) as view:
                where = str(shard.path)
                refuse_other_settings(
                    Claim(view.owner.index_identity, "", 0, 0), identity, "", where
                )
                logged, findings_of_shard = compare_shard(settings, view, report)
                findings += findings_of_shard
                sequences.append(logged.entries.sequences)
                documents = len(view.store)
                owner = SegmentOwner(
                    view.owner.index_identity, view.owner.application_id, view.owner.partition
                )
            findings += check_segments(shard.path, owner, report)
            shards.append(VerifiedShard(shard.partition, documents, logged.records_behind))
        except StoreCorruptError as error:
            what = f"{error.path}: {error.what}"
            findings.append(Finding("disk", shard.partition, what, _RESTORE))
        except StoreError as error:
            findings.append(Finding("disk", shard.partition, str(error), ""))
    findings += _in_two_shards(sequences)
    report("log", 0, 0)
    topics = index_topics(admin, settings, changes=False)
    state: LogState | None = None
    try:
        state = read_log(settings, identity, topics.shards)
    except LogCutError as error:
        findings.append(Finding("log", None, str(error).split(". '")[0], _NEW_LOG))
    except FirstseenError as error:
        findings.append(Finding("log", None, str(error), _NEW_LOG))
    else:
        findings += _of_log(state, topics)
    findings += _offsets(settings, topics)
    return Verified(
        application=settings.application_id,
        index=index_digest(identity),
        shards=shards,
        log_start=None if state is None else state.start,
        log_end=None if state is None else state.end,
        undecided=None if state is None else state.undecided,
        findings=findings,
    )


def _of_log(state: LogState, topics: IndexTopics) -> Iterator[Finding]:
    """Find what the log and the shards do not agree in."""
    for damage in state.damaged:
        yield Finding("log", None, damage, _NEW_LOG)
    known = {chain.partition for chain, _ in state.heads}
    for each in topics.shards:
        if each.latest_entry >= state.end:
            what = f"it ends at {state.end}, but a shard has an entry at {each.latest_entry}"
            yield Finding("log", each.partition, what, _NEW_LOG)
        elif state.heads and each.latest_entry >= 0 and each.partition not in known:
            what = "the shard has entries, and no control record names it"
            yield Finding("log", each.partition, what, _NEW_LOG)


def _in_two_shards(sequences: Sequence[NDArray[np.uint64]]) -> list[Finding]:
    """Find entries that stand in two shards."""
    whole = np.concatenate([*sequences, np.empty(0, dtype=np.uint64)])
    numbers, counts = np.unique(whole, return_counts=True)
    twice = int((counts > 1).sum())
    if not twice:
        return []
    first = int(numbers[counts > 1][0])
    what = f"{twice:,} entries are in two shards, the first at {first >> 16}:{first & 0xFFFF}"
    return [Finding("changelog", None, what, "Report this with a copy of the changelog")]


def _offsets(settings: Settings, topics: IndexTopics) -> list[Finding]:
    """Compare the group's offsets with the progress: one commit moves both."""
    committed = committed_by(settings, settings.application_id, topics.raw)
    findings: list[Finding] = []
    # A worker that runs may have committed in between: what is read last is at least as far.
    for each in shard_heads(settings, sorted(committed)):
        progress = None if each.progress is None else each.progress.progress
        if progress is None or progress.chain.topic_id != topics.raw.identifier:
            continue
        if progress.next < committed[each.partition]:
            what = (
                f"the group's offset is {committed[each.partition]}, but the shard has committed "
                f"outputs up to {progress.next}"
            )
            fix = "The group's offsets were set by hand: set them back to the progress of the shard"
            findings.append(Finding("group", each.partition, what, fix))
    return findings


def check_segments(store: Path, owner: SegmentOwner, report: Report) -> Iterator[Finding]:
    """Yield what is wrong with the segment files beside a store, in the directory ``store``.

    Safe beside a worker, which may delete a file while it is looked at. Blocking.
    """
    paths = segment_paths(store)
    for number, path in enumerate(paths):
        report(f"shard {owner.partition}: segment files", number, len(paths))
        try:
            head = read_head(path)
            check_columns(path, head)
        except FileNotFoundError:
            continue  # its worker has merged it with others
        except (SegmentDamagedError, OSError) as error:
            yield Finding("disk", owner.partition, str(error), _REBUILD)
            continue
        if head.owner != owner:
            what = f"{path}: it is of another shard or another index"
            yield Finding("disk", owner.partition, what, _REBUILD)
