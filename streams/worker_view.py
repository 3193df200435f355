"""The worker as seen from beside it: by its pages, its probes, and queries about a text."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Final

from simhash_core.documents import Content, Document, SourcePosition
from simhash_core.errors import FirstseenError
from simhash_core.log.columns import document_columns
from simhash_core.log.participant import Participant
from simhash_core.log.records import Query
from simhash_core.matches import Answer
from simhash_core.text.fingerprinter import Fingerprinter
from streams.intake.raw_batches import RawArrival
from streams.kafka.retries import becomes_true_on_loop
from streams.monitoring.worker_state import CheckUnavailableError, ShardState
from streams.ordering.log_stage import LogStage
from streams.output.put_out import PutOut
from streams.shard_sessions import ShardSessions
from streams.store.shard_stores import ShardStores

_ANSWER_SECONDS: Final = 5.0
_ANSWER_LOOK_SECONDS: Final = 0.005
_WORD_BITS: Final = 64


class PipelineView:
    """Implements ``WorkerView``. All but ``ask`` may be called from any thread."""

    def __init__(
        self,
        participant: Participant[RawArrival],
        stage: LogStage,
        sessions: ShardSessions,
        stores: ShardStores,
        put_out: PutOut,
        fingerprinter: Fingerprinter,
        failure: Callable[[], FirstseenError | None],
        why_waiting: Callable[[], str | None],
    ) -> None:
        """``failure`` returns what the worker failed of, ``why_waiting`` what raw records await."""
        self._participant = participant
        self._stage = stage
        self._sessions = sessions
        self._stores = stores
        self._put_out = put_out
        self._fingerprinter = fingerprinter
        self._failure = failure
        self._why_waiting = why_waiting

    @property
    def failure(self) -> FirstseenError | None:
        """What the worker failed of; None while it works."""
        return self._failure()

    @property
    def ready(self) -> bool:
        """Whether all assigned shards are open, the log is read to its end, and nothing waits."""
        return self._sessions.ready and self._why_waiting() is None

    @property
    def leads(self) -> bool:
        """Whether this worker is the leader."""
        return self._participant.leads

    @property
    def leader(self) -> str | None:
        """The name of the worker that leads; None where no leader is known."""
        latest = self._participant.replica.latest
        return None if latest is None else latest.leader.rpartition(".")[0]

    @property
    def log_position(self) -> int | None:
        """The offset of the log that is read next; None before reading begins."""
        return self._participant.replica.position if self._participant.shards else None

    def why_not_ready(self) -> str | None:
        """Return what ``ready`` waits for; None where the worker is ready."""
        return self._why_not_open() or self._why_waiting()

    def _why_not_open(self) -> str | None:
        """Return what keeps the index from answering; that needs no raw records."""
        opening = sorted(self._sessions.opening)
        if opening:
            count = len(opening) + len(self._participant.shards)
            return (
                f"{len(opening)} of {count} shards are being opened: {' '.join(map(str, opening))}"
            )
        if not self._sessions.assigned_once:
            return "no partitions assigned yet"
        if not self._participant.caught_up:
            return "the log is being read to its end"
        return None

    def shards(self) -> Mapping[int, ShardState]:
        """Return the state of each assigned shard, by raw partition. From any thread."""
        recoveries = self._stores.recoveries()
        states = {
            partition: ShardState(
                is_open=False,
                entries=0,
                waiting=0,
                next_offset=0,
                log_position=0,
                recovery_remaining=recoveries[partition].remaining
                if partition in recoveries
                else 0,
            )
            for partition in list(self._sessions.opening)
        }
        for partition, shard in self._participant.shards.copy().items():
            states[partition] = ShardState(
                is_open=True,
                entries=len(self._put_out.stores.get(partition, ())),
                waiting=shard.stream.waiting,
                next_offset=shard.stream.next,
                log_position=shard.stream.committed.needed,
                recovery_remaining=0,
            )
        return dict(sorted(states.items()))

    async def ask(self, content: Content, limit: int, scope: str = "") -> Answer:
        """Return what the whole index says of a document, through the log; nothing is kept.

        With a window the document's time is that of the latest documents.

        Raises ``CheckUnavailableError`` where the worker is not ready, and where no leader has
        answered in time.
        """
        why = self._why_not_open()
        if why is not None:
            raise CheckUnavailableError(f"this worker is not ready: {why}")
        if not self._participant.shards:
            raise CheckUnavailableError("this worker has no shards: ask another worker")
        replica = self._participant.replica
        clock = replica.clock_before(replica.decided_before)
        time_ms = 0 if clock is None else clock.watermark
        document = Document("", content.text, SourcePosition("", 0, 0), time_ms, scope=scope)
        printed = self._fingerprinter.fingerprint(content)
        words = self._fingerprinter.scheme.bits // _WORD_BITS
        query = Query(uuid.uuid4().hex, limit, document_columns([document], [printed], words))
        answers = self._participant.answers
        answers[query.identifier] = None
        try:
            await self._stage.ask(query)
            return await self._answer(query.identifier)
        finally:
            del answers[query.identifier]

    async def _answer(self, identifier: str) -> Answer:
        answers = self._participant.answers
        await becomes_true_on_loop(
            lambda: answers[identifier] is not None, _ANSWER_SECONDS, _ANSWER_LOOK_SECONDS
        )
        if (answer := answers[identifier]) is None:
            raise CheckUnavailableError(
                f"no answer within {_ANSWER_SECONDS:g} s: no worker leads now, or a shard does "
                "not report (metrics firstseen_leader and firstseen_report_missing)"
            )
        return answer
