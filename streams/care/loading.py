"""Loads documents into an index: one transaction, before any document that is still to come.

An entry must stand in the changelog of a shard, under a sequence number: its place in the log. So
for each few thousand documents a control record without decisions is appended to the log, and its
offset is theirs. It names all shards: a leader then waits for the report of each. Changelog,
progress and the group's offsets are one transaction of the group's only member.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from confluent_kafka.admin import AdminClient

from simhash_core.errors import FirstseenError, UsageError
from simhash_core.log.log_clock import Horizons, LogClock
from simhash_core.log.packets import NO_OFFSET, Chain
from simhash_core.log.records import NO_CONTROL, Progress
from simhash_core.log.sequence import PACKET_DOCUMENTS_LIMIT, sequence_number
from simhash_core.window import Window
from streams.care.changelog_heads import ShardHead, shard_heads
from streams.care.index_topics import (
    committed_by,
    index_topics,
    raw_watermarks,
    refuse_other_index,
)
from streams.care.index_transaction import IndexTransaction
from streams.care.load_sources import LoadSource, Report
from streams.care.load_spool import LoadSpool
from streams.care.log_reservations import LogReservations
from streams.care.log_state import LogState, read_log
from streams.care.sole_member import SoleMember
from streams.settings.reading_rules import reading_rules
from streams.settings.settings import Settings
from streams.store.changelog_codec import encode_block, encode_progress
from streams.store.entry_block import EntryBlock

EARLIEST: Final = "earliest"
LATEST: Final = "latest"

_NAME: Final = "index-load"
_KEEP_DOCUMENTS: Final = 50_000


class IndexNotEmptyError(FirstseenError):
    """The index has documents, and a load was to begin it."""


@dataclass(slots=True)
class LoadAccount:
    """What was loaded. ``begins``: the raw offset that each shard reads from."""

    documents: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    shards: dict[int, int] = field(default_factory=dict)
    begins: dict[int, int] = field(default_factory=dict)
    log_offset: int = NO_CONTROL
    seconds: float = 0.0


class Loading:
    """One load of an index."""

    def __init__(
        self,
        settings: Settings,
        admin: AdminClient,
        identity: str,
        *,
        adds: bool,
        begin: str | None,
    ) -> None:
        """Look at the index, and refuse what cannot be done to it. Blocking.

        ``adds``: it may have documents already. ``begin``: where workers begin to read raw records:
        ``EARLIEST``, ``LATEST``, or the application whose offsets to go on from; None: it has
        progress, or the raw topic is empty. Raises ``IndexNotEmptyError``, ``WorkersRunError``,
        ``UsageError`` and others.
        """
        self._settings = settings
        self._identity = identity
        self._topics = index_topics(admin, settings, changes=True)
        refuse_other_index(self._topics.shards, identity, settings)
        if not (adds or self._topics.is_empty):
            raise IndexNotEmptyError(
                f"the index of application {settings.application_id!r} is not empty: --add adds to "
                "it, 'firstseen index drop --everything' empties it, and --application-id begins "
                "another"
            )
        self._begins = self._begin_offsets(begin)
        self._clock: LogClock | None = None

    def run(self, source: LoadSource, report: Report) -> LoadAccount:
        """Load all of a source, or nothing. Blocking.

        Raises what the source raises, ``WorkersRunError`` where a worker was started meanwhile, and
        ``IndexChangeError``.
        """
        began = time.monotonic()
        account = LoadAccount()
        with LoadSpool() as spool:
            for run in source.runs(report):
                spool.write(run)
            account.refused = source.refused
            if not spool.documents:
                raise UsageError("nothing to load: no document could be read")
            partitions = self._topics.raw.partitions
            report("joining the group", 0, 0)
            name = f"{self._settings.application_id}.{_NAME}"
            with SoleMember(self._settings, partitions, name) as member:
                committed = member.committed()  # no transaction of a worker is open from here on
                shards = shard_heads(self._settings, range(partitions))
                if self._topics.is_empty and not all(each.is_empty for each in shards):
                    raise IndexNotEmptyError("a worker has started on this index meanwhile")
                log = read_log(self._settings, self._identity, shards)
                heads = self._heads(shards, log)
                with (
                    LogReservations(
                        self._settings,
                        self._identity,
                        log.replica,
                        heads,
                        begins=self._topics.is_empty,
                    ) as reservations,
                    IndexTransaction(self._settings, _NAME) as transaction,
                ):
                    self._send(spool, reservations, transaction, member, account, report)
                    if self._topics.is_empty:
                        self._begin(account.log_offset, transaction)
                        account.begins = self._begins
                    offsets = self._offsets(shards, committed)
                    report("committing", spool.documents, spool.documents)
                    transaction.commit(offsets, member.metadata())
        account.seconds = round(time.monotonic() - began, 3)
        return account

    def _send(
        self,
        spool: LoadSpool,
        reservations: LogReservations,
        transaction: IndexTransaction,
        member: SoleMember,
        account: LoadAccount,
        report: Report,
    ) -> None:
        """Send all entries, a run at a time to the shard that has got the fewest.

        A place in the log has one record of a shard at most, as a packet has.
        """
        counts = dict.fromkeys(range(self._topics.raw.partitions), 0)
        profile = self._settings.index_profile()
        window = None if profile.window is None else Window(profile.window, profile.lateness)
        horizons = Horizons(window)
        now_ms = int(time.time() * 1000)
        free: set[int] = set()
        limit = PACKET_DOCUMENTS_LIMIT
        said = 0
        for run in spool.read():
            count = len(run.columns)
            if not free or limit + count > PACKET_DOCUMENTS_LIMIT:
                account.log_offset = reservations.take()
                free, limit = set(counts), 0
            horizons.packet(account.log_offset, run.columns, now_ms)
            first = sequence_number(account.log_offset, limit)
            sequences = np.arange(first, first + count, dtype=np.uint64)
            limit += count
            block = EntryBlock(Chain(run.topic, "", run.partition), sequences, run.columns)
            partition = min(free, key=lambda each: (counts[each], each))
            free.remove(partition)
            transaction.change(partition, encode_block(block))
            counts[partition] += count
            account.documents += count
            if account.documents - said >= _KEEP_DOCUMENTS:
                said = account.documents
                member.keep()
                report("loading", said, spool.documents)
        account.shards = counts
        self._clock = horizons.before(account.log_offset + 1)

    def _heads(self, shards: list[ShardHead], log: LogState) -> list[tuple[Chain, int]]:
        """Return the heads of all chains, of shards without documents in the log as well.

        For a leader waits for the reports of those shards alone that the log names.
        """
        known = {chain.partition for chain, _ in log.heads}
        raw = self._topics.raw
        return [
            *log.heads,
            *(
                (Chain(raw.name, raw.identifier, each.partition), NO_OFFSET)
                for each in shards
                if each.partition not in known
            ),
        ]

    def _begin(self, control: int, transaction: IndexTransaction) -> None:
        """Let the shards have progress: behind the last control record of the load."""
        raw, reading = self._topics.raw, reading_rules(self._settings)
        for partition, first in self._begins.items():
            chain = Chain(raw.name, raw.identifier, partition)
            progress = Progress(chain, first, control + 1, control, self._clock)
            transaction.change(partition, encode_progress(progress, self._identity, reading))

    def _offsets(self, shards: list[ShardHead], committed: Mapping[int, int]) -> dict[int, int]:
        """Return the group's offsets as they are to be: as they were, or where it begins."""
        offsets: dict[int, int] = {}
        for each in shards:
            had = 0 if each.progress is None else each.progress.progress.next
            offsets[each.partition] = self._begins.get(
                each.partition, committed.get(each.partition, had)
            )
        return offsets

    def _begin_offsets(self, begin: str | None) -> dict[int, int]:
        """Return the raw offsets to begin at; {} for an index that has begun."""
        if not self._topics.is_empty:
            if begin is not None:
                raise UsageError(
                    "the index already has committed offsets, and its workers continue there"
                )
            return {}
        raw = self._topics.raw
        marks = raw_watermarks(self._settings, raw)
        if begin is None and any(each.end > each.start for each in marks.values()):
            raise UsageError(
                f"{raw.name} has records: say whether workers read them (--begin earliest), skip "
                f"them (--begin latest), or continue from the offsets of another application "
                f"(--begin ID)"
            )
        if begin in {None, EARLIEST}:
            return dict.fromkeys(range(raw.partitions), 0)
        if begin == LATEST:
            return {partition: marks[partition].readable_end for partition in range(raw.partitions)}
        assert begin is not None
        committed = committed_by(self._settings, begin, raw)
        if not committed:
            raise UsageError(f"the application {begin!r} has no committed offsets in {raw.name}")
        return {partition: committed.get(partition, 0) for partition in range(raw.partitions)}
