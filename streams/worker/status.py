"""Status: the worker's state for pages and probes, and its answers to queries."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Final

from simhash_core.documents import Content, Document, SourcePosition
from simhash_core.errors import FirstseenError
from simhash_core.log.columns import document_columns
from simhash_core.log.records import Query
from simhash_core.log.shards import OwnedShard
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.verdicts import Answer
from streams.kafka.errors import becomes_true_on_loop
from streams.monitoring.worker_state import (
    CheckUnavailableError,
    NextStep,
    ShardState,
    Waits,
    partition_ranges,
)
from streams.worker.clients import StoreOpener
from streams.worker.fingerprint import PendingRecord
from streams.worker.pipeline import Pipeline

_ANSWER_SECONDS: Final = 5.0
_ANSWER_LOOK_SECONDS: Final = 0.005


class PipelineView:
    """Implements ``WorkerView``; any thread may call it, except ``ask`` and ``note_waits``."""

    def __init__(
        self, pipeline: Pipeline, stores: StoreOpener, fingerprinter: Fingerprinter
    ) -> None:
        self._pipeline = pipeline
        self._participant = pipeline.participant
        self._assignment = pipeline.assignment
        self._stores = stores
        self._fingerprinter = fingerprinter
        self._waits = Waits()

    @property
    def failure(self) -> FirstseenError | None:
        return self._pipeline.failure

    @property
    def ready(self) -> bool:
        """Whether all shards are open, the log is read to its end, and no schema is missing."""
        return self._assignment.ready and self._pipeline.schemas.why_waiting() is None

    @property
    def leads(self) -> bool:
        return self._participant.leads

    @property
    def leader(self) -> str | None:
        latest = self._participant.replica.latest
        return None if latest is None else latest.leader.rpartition(".")[0]

    @property
    def format_version(self) -> int | None:
        latest = self._participant.replica.latest
        return None if latest is None else latest.version

    @property
    def without_standby(self) -> Sequence[int]:
        return self._pipeline.standbys.missing

    @property
    def log_position(self) -> int | None:
        """The next offset of the log to read; None before reading begins."""
        return self._participant.replica.position if self._participant.shards else None

    def why_not_ready(self) -> str | None:
        return self._why_not_open() or self._pipeline.schemas.why_waiting()

    def _why_not_open(self) -> str | None:
        """Return why the index cannot answer, None if it can; an answer needs no raw records."""
        if self._assignment.is_stopped:
            return "the worker stops"
        opening = sorted(shard.partition for shard in self._assignment.opening)
        if opening:
            count = len(self._pipeline.shards)
            return f"{len(opening)} of {count} shards are being opened: {partition_ranges(opening)}"
        if not self._assignment.has_its_share:
            return "no partitions assigned yet"
        if not self._participant.caught_up:
            return "the log is being read to its end"
        return None

    def waits(self) -> Waits:
        return self._waits

    def note_waits(self) -> None:
        """Determine once a second what documents wait for."""
        shards = self._participant.shards
        if self._pipeline.intake.is_empty:
            steps = dict.fromkeys(shards, NextStep.READ)
        else:
            steps = {partition: self._next_step(shard) for partition, shard in shards.items()}
        self._waits = Waits(self._participant.waits_for(), self._pipeline.intake.is_held, steps)

    def shards(self) -> Mapping[int, ShardState]:
        recoveries = self._stores.recoveries()
        states = {}
        for partition, shard in sorted(self._pipeline.shards.copy().items()):
            store, owned = shard.store, shard.owned
            if owned is None or store is None:
                recovery = recoveries.get(partition)
                left = 0 if recovery is None else recovery.remaining
                states[partition] = ShardState(False, 0, 0, 0, 0, left)
                continue
            stream = owned.stream
            states[partition] = ShardState(
                True, len(store), stream.waiting, stream.next, stream.committed.needed, 0
            )
        return states

    async def look_up(self, content: Content, limit: int, scope: str = "") -> Answer:
        """Send a document as a query through the log, and return the answer of the whole index.

        The index does not keep the document. With a window, its time is that of the latest
        documents. Raises ``CheckUnavailableError`` if the worker is not ready, or if no leader
        answers in time.
        """
        why = self._why_not_open()
        if why is not None:
            raise CheckUnavailableError(f"this worker is not ready: {why}")
        if not self._participant.shards:
            raise CheckUnavailableError(
                "this worker has no shards: send the query to another worker"
            )
        replica = self._participant.replica
        clock = replica.clock_before(replica.decided_before)
        time_ms = 0 if clock is None else clock.watermark
        document = Document("", content.text, SourcePosition("", 0, 0), time_ms, scope=scope)
        printed = self._fingerprinter.fingerprint(content)
        columns = document_columns([document], [printed], self._fingerprinter.scheme.words)
        query = Query(uuid.uuid4().hex, limit, columns)
        answers = self._participant.answers
        answers[query.identifier] = None
        try:
            await self._pipeline.context.append(query)
            await becomes_true_on_loop(
                lambda: answers[query.identifier] is not None, _ANSWER_SECONDS, _ANSWER_LOOK_SECONDS
            )
        finally:
            answer = answers.pop(query.identifier)
        if answer is None:
            raise CheckUnavailableError(
                f"no answer within {_ANSWER_SECONDS:g} s: there is no leader now, or a shard does "
                "not report (metrics firstseen_leader and firstseen_report_missing)"
            )
        return answer

    def _next_step(self, shard: OwnedShard[PendingRecord]) -> NextStep:
        if not shard.stream.waiting:
            queue = self._pipeline.shards[shard.partition].queue
            return NextStep.TURN if queue.messages else NextStep.READ
        if self._participant.next_is_ready(shard):
            return NextStep.COMMIT
        is_held = shard.stream.has_unsent and self._pipeline.sender.alignment.is_holding
        return NextStep.TURN if is_held else NextStep.VERDICT
