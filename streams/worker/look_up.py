"""Look-up: the worker reads the log and looks up new documents in its shards."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from simhash_core.errors import ErrorReason, FirstseenError
from simhash_core.index.prints import prints_of
from simhash_core.log.records import Bundle, Report, log_offset_of
from simhash_core.log.versions import UnreadableVersionError
from streams.kafka.errors import TopicDeletedError
from streams.kafka.producers import AppendUnknownError
from streams.store.shard_store import ShardStore
from streams.worker.context import WorkerContext
from streams.worker.log_codec import NOT_DECODED, DecodedRecord, LogDecodeError, version_of
from streams.worker.order import RETRY_SECONDS, BundleSender
from streams.worker.worker_log import RateLimitedLog

logger = logging.getLogger(__name__)

_SLICE_SECONDS: Final = 0.01  # after this time the other stages get a turn
_DECODED_TOGETHER: Final = 64  # records
_SAMPLE_SECONDS: Final = 1.0
# Between reports of the version that this worker reads, and of its standbys.
_NEWS_SECONDS: Final = 3.0
_SILENT_SECONDS: Final = 5.0  # after so long without a decision, a report is made again
_SILENT_SECONDS_MAX: Final = 60.0
_MILLISECONDS: Final = 1000


_UndecodedRecord = tuple[int, bytes, int]  # as in ``LogRecords``
_DecodedRecord = tuple[int, DecodedRecord, int, int]  # offset, record, version, timestamp


class LogReplacedError(FirstseenError):
    """The log is not the one from which the shards continue."""

    reason = ErrorReason.BROKER

    def __init__(self, topic: str, what: str, why: str = "the log was lost and made again") -> None:
        super().__init__(
            f"{topic} {what}: {why}. Start the worker again; if it ends so again, stop all "
            "workers, then run 'firstseen index new-log', also if an earlier run of it was "
            "interrupted"
        )


class LookUpEvents(NamedTuple):
    """Callbacks of ``LogLookUp``.

    ``on_report`` gets this worker's reports while it leads; ``on_look_up`` runs the stage again.
    """

    on_report: Callable[[Report], None]
    on_decided: Callable[[], None]
    on_look_up: Callable[[], None]


class LogLookUp:
    """One worker's reading of the log; ``stores`` returns those of open shards and standbys."""

    def __init__(
        self,
        context: WorkerContext,
        sender: BundleSender,
        events: LookUpEvents,
        stores: Callable[[], Iterable[ShardStore]],
    ) -> None:
        self._context = context
        self._participant = context.participant
        self._metrics = context.metrics
        self._reader = context.clients.log
        self._codec = context.codec
        self._topics = context.settings.topics
        self._sender = sender
        self._events = events
        self._stores = stores
        self._session = 0
        self._committed: list[tuple[int, int]] = []  # see ``Replica.lacks_committed``
        self._log_end = 0  # when it was committed
        self._needs_ids = context.participant.nearness.replaces
        self._ids_made_in = -1
        self._keys_noted_in = -1
        self._sampled_at = 0.0
        self._undecided_since: deque[tuple[int, int]] = deque()
        self._reported_at = 0.0  # on the wall clock
        self._unread: list[_UndecodedRecord] = []
        self._unread_may_wait = True
        self._timer: asyncio.TimerHandle | None = None
        self._awaited: int | None = None
        self._awaited_since = 0.0
        self._news_reported_at = time.monotonic()
        self._silent_seconds = _SILENT_SECONDS
        self._foreign = RateLimitedLog(logger, "skipped %d records of the log; the last: %s")
        self._out_of_chain = RateLimitedLog(
            logger,
            "skipped %d packets or control records that do not continue their chain: they were "
            "sent twice, or by a former owner or leader; the last one before offset %s",
        )

    def begin(self, offset: int) -> None:
        """Begin a session: read the log from an offset; raises ``LogReplacedError``."""
        self._session += 1
        self._committed = [
            (owned.stream.committed.position, log_offset_of(shard.store.highest))
            for shard in self._context.shards.values()
            if (owned := shard.owned) is not None and shard.store is not None
        ]
        self._log_end = self._participant.log_seen
        self._refuse_lost_end()
        self._undecided_since.clear()
        self._unread = []
        self._awaited = None
        self._sender.pace.begin()
        self._reader.seek(offset)

    def _refuse_lost_end(self) -> None:
        """Raise ``LogReplacedError`` if the log, read to its end, lacks what is committed.

        Brokers have then lost its last records, but not the changelog's, as after an unclean
        election of a leader of the log. Later documents would get the sequence numbers of entries.
        """
        replica = self._participant.replica
        if not self._committed or replica.position < self._log_end:
            return
        committed, self._committed = self._committed, []
        if any(replica.lacks_committed(*each) for each in committed):
            raise LogReplacedError(
                self._topics.log,
                f"has decisions only on what is before offset {replica.decided_before}, but shards "
                "have committed what follows from later ones",
                "brokers have lost its last records",
            )

    async def step(self) -> None:
        """Read available records, look them up, and report, in slices."""
        is_more = True
        while is_more:
            is_more = self._take()
            if self._is_to_read():
                await self._read_all()
            await self._make_ids()
            self._note_keys()
            await self._report()
            await self._sender.send()

    def _take(self) -> bool:
        """Take the next records of the log; return whether there were any."""
        batch = self._reader.take()
        if batch is None:
            return False
        if not self._unread:
            self._unread_may_wait = True
        self._unread += batch.records
        for _, value, _ in batch.records:
            sender = self._codec.sender_of(value)
            if sender is None:
                self._unread_may_wait = False
            elif sender == self._participant.worker:
                self._sender.pace.ended()
        return True

    def _is_to_read(self) -> bool:
        """Return whether to read on now.

        Bundles wait until the next report, because they cost less together; control records do not
        wait.
        """
        if not self._unread:
            return False
        wait = self._sender.pace.report_wait(self._reported_at)
        is_few = self._unread_may_wait and len(self._unread) < _DECODED_TOGETHER
        if wait and is_few and self._participant.caught_up:
            self._step_after(wait)
            return False
        return True

    async def _read_all(self) -> None:
        records, self._unread = self._unread, []
        participant, session = self._participant, self._session
        skipped, refused = participant.packets_skipped, participant.controls_refused
        slice_end = time.monotonic() + _SLICE_SECONDS
        for read in self._decoded(records):
            with self._metrics.stage("lookup"):
                self._read(*read)
            if (lost := participant.replica.lost_control) is not None:
                raise LogReplacedError(
                    self._topics.log,
                    f"has another record at offset {lost} than the one that shards continue from",
                )
            self._refuse_lost_end()
            if time.monotonic() > slice_end:
                await asyncio.sleep(0)
                if session != self._session:
                    return  # a new session reads the remaining records again
                slice_end = time.monotonic() + _SLICE_SECONDS
        packets = participant.packets_skipped - skipped
        controls = participant.controls_refused - refused
        self._metrics.packet_skipped(packets)
        self._metrics.control_refused(controls)
        self._out_of_chain.note(participant.replica.position, packets + controls)

    def _decoded(self, read: Sequence[_UndecodedRecord]) -> Iterator[_DecodedRecord]:
        """Yield records; several are decoded together."""
        records = iter(read)
        while some := [*islice(records, _DECODED_TOGETHER)]:
            where = [f"{self._topics.log}/0@{offset}" for offset, _, _ in some]
            with self._metrics.stage("lookup"):
                decoded = self._codec.decode_many([value for _, value, _ in some], where)
            for (offset, value, timestamp_ms), record in zip(some, decoded, strict=True):
                yield offset, record, version_of(value), timestamp_ms

    def _read(self, offset: int, record: DecodedRecord, version: int, timestamp_ms: int) -> None:
        participant = self._participant
        is_accepted = participant.replica.accepts(offset, version)
        if isinstance(record, UnreadableVersionError) and is_accepted:
            raise record  # other workers apply this record, so skipping it could change verdicts
        if isinstance(record, NOT_DECODED) or not is_accepted:
            if not isinstance(record, NOT_DECODED):
                record = LogDecodeError(
                    f"the record {self._topics.log}/0@{offset} has format version {version}, and "
                    f"version {participant.version} is in force"
                )
            self._foreign.note(record)
            self._metrics.foreign_record("log")
            participant.replica.skip(offset)
            return
        if participant.read(offset, record, timestamp_ms) is not None:
            self._events.on_decided()
        if isinstance(record, Bundle):
            self._sender.pace.read(record.worker, len(record))
            if participant.caught_up:
                self._sender.alignment.read(record, timestamp_ms)
            self._needs_ids = self._needs_ids or record.columns.operations is not None
        if offset in participant.replica.undecided:
            self._undecided_since.append((offset, timestamp_ms))

    async def _make_ids(self) -> None:
        """Write each store's rows by id before the first delete is looked up, a store per turn."""
        if not self._needs_ids or self._ids_made_in == self._session:
            return
        session = self._session
        while session == self._session:
            # Get the open stores each time, because a thread may have closed some.
            store = next((each for each in self._stores() if not each.ids_ready), None)
            if store is None:
                break
            store.make_ids()
            await asyncio.sleep(0)
        self._ids_made_in = session

    def _note_keys(self) -> None:
        """Fill the filter of contents and ids, a store per turn; until then each one is asked."""
        if self._keys_noted_in != self._session:
            store = next((each for each in self._stores() if not each.keys_noted), None)
            if store is None:
                self._keys_noted_in = self._session
            else:
                store.note_keys()

    async def _report(self) -> None:
        if not self._participant.has_to_report:
            return
        wait = self._sender.pace.report_wait(self._reported_at)
        if wait:
            self._step_after(wait)
            return
        self._reported_at = time.time()
        slice_end = time.monotonic() + _SLICE_SECONDS
        while self._report_once():
            if time.monotonic() > slice_end:
                await asyncio.sleep(0)
                slice_end = time.monotonic() + _SLICE_SECONDS

    def _step_after(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._look_up_now)

    def _look_up_now(self) -> None:
        self._timer = None
        self._events.on_look_up()

    def _report_once(self) -> bool:
        participant = self._participant
        with self._metrics.stage("lookup"):
            before = participant.index.candidates_seen
            looked_up = participant.documents_looked_up
            report = participant.report(self._context.settings.batch.documents)
        if report is None:
            return False
        candidates = participant.index.candidates_seen - before
        self._metrics.candidates(candidates, participant.documents_looked_up - looked_up)
        self._sample_buckets()
        self._send(report)
        return True

    def _sample_buckets(self) -> None:
        """Measure the fullest bucket of one waiting document, once a second."""
        if time.monotonic() - self._sampled_at < _SAMPLE_SECONDS:
            return
        self._sampled_at = time.monotonic()
        item = next(iter(self._participant.replica.undecided.values()), None)
        if item is None or not len(item.columns) or item.columns.undecidable[0]:
            return
        index = self._participant.index
        first = prints_of(index.scheme, item.columns, np.zeros(1, dtype=np.intp))
        counts = index.bucket_counts(first)
        self._context.observers.on_bucket(counts.fullest)
        self._metrics.bucket_documents([counts.fullest])

    def _send(self, report: Report) -> None:
        if not report.shards:
            return
        if self._participant.decider is not None:
            self._events.on_report(report)
            return
        self._append_report(report)

    def _append_report(self, report: Report) -> None:
        value = self._codec.encode_report(report, self._participant.version)
        self._metrics.internal_bytes("reports", len(value))
        future = self._context.clients.appender.append(self._topics.reports, value)
        future.add_done_callback(self._reported)

    def _reported(self, future: asyncio.Future[int]) -> None:
        if future.cancelled() or (error := future.exception()) is None:
            return
        # If the topic was deleted for good, the worker that leads ends, because it reads it.
        if not isinstance(error, AppendUnknownError | TopicDeletedError):
            self._context.append_failed(error)
            return
        logger.warning("looking documents up again: %s", error)
        self._participant.look_up_again()
        asyncio.get_running_loop().call_later(RETRY_SECONDS, self._events.on_look_up)

    # ---- called every second

    def report_news(self) -> None:
        """Report the version that this worker reads and its open standbys, until the log has both.

        Other reports contain both too, but there are none without documents. A worker without
        shards keeps reporting its version, because it does not read the log.
        """
        participant = self._participant
        now = time.monotonic()
        if now - self._news_reported_at < _NEWS_SECONDS:
            return
        has_standbys = participant.has_standby_news
        if not has_standbys and not participant.awaits_raise:
            return
        self._news_reported_at = now
        if participant.decider is None:
            self._append_report(participant.positions())
        elif has_standbys:
            self._events.on_report(participant.positions())

    def measure(self) -> None:
        undecided = self._participant.replica.undecided
        since = self._undecided_since
        while since and since[0][0] not in undecided:
            since.popleft()
        age = time.time() - since[0][1] / _MILLISECONDS if since else 0.0
        documents = sum(len(item.columns) for item in undecided.values())
        self._metrics.undecided(documents, max(0.0, age))

    def is_report_lost(self) -> bool:
        """Return whether to report again, because nothing was decided for too long.

        A new leader may have missed this report; an acknowledgement does not mean that anybody read
        it. The wait doubles each time.
        """
        now, waiting = time.monotonic(), next(iter(self._participant.replica.undecided), None)
        if waiting != self._awaited or waiting is None:
            self._awaited, self._awaited_since = waiting, now
            self._silent_seconds = _SILENT_SECONDS
            return False
        if self._participant.decider is not None or not self._participant.caught_up:
            return False
        if now - self._awaited_since < self._silent_seconds:
            return False
        self._awaited_since = now
        self._silent_seconds = min(2 * self._silent_seconds, _SILENT_SECONDS_MAX)
        return True
