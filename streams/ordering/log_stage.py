"""To the log and from it: packets are appended, what is read is looked up and reported."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from simhash_core.errors import FirstseenError
from simhash_core.index.prints import prints_of
from simhash_core.log.packets import Packet
from simhash_core.log.participant import Participant
from simhash_core.log.records import Query, Report
from simhash_core.log.replica import Heeded
from streams.intake.raw_batches import RawArrival, RawBatches
from streams.intake.raw_records import RawRecords
from streams.kafka.appender import Appender, AppendUnknownError
from streams.kafka.log_reader import LogRecords
from streams.monitoring.metrics import Metrics
from streams.monitoring.rare_lines import RareLines
from streams.ordering.log_codec import LogCodec, LogDecodeError, LogVersionError, OtherIndexError
from streams.settings.topics import TopicSettings

logger = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 0.2
_SAMPLE_SECONDS: Final = 1.0
_MILLISECONDS: Final = 1000

OnReport = Callable[[Report], None]
OnFailure = Callable[[FirstseenError], None]
OnBucket = Callable[[int], None]
"""Takes how many documents the fullest bucket of a document has, once a second."""


class LogClient(NamedTuple):
    """What writes to the log and to the topic of reports."""

    codec: LogCodec
    appender: Appender
    topics: TopicSettings


class LogStage:
    """One worker's appends to the log, and its reading of it. On the event loop alone."""

    def __init__(
        self,
        participant: Participant[RawArrival],
        batches: RawBatches,
        log: LogClient,
        metrics: Metrics,
        *,
        limit: int,
        on_report: OnReport,
        on_failure: OnFailure,
        on_bucket: OnBucket,
    ) -> None:
        """``limit``: of packets in a report.

        ``on_report`` takes the reports of this worker while it is the one to lead.
        """
        self._participant = participant
        self._batches = batches
        self._codec, self._appender, self._topics = log
        self._metrics = metrics
        self._on_bucket = on_bucket
        self._sampled_at = 0.0
        self._limit = limit
        self._on_report = on_report
        self._on_failure = on_failure
        self._undecided_since: deque[tuple[int, int]] = deque()
        self._foreign = RareLines(logger, "skipped %d records of the log; the last: %s")
        self._out_of_chain = RareLines(
            logger,
            "skipped %d packets or control records that do not continue their chain: sent twice, "
            "or by a worker that no longer owns the shard or leads; the last one before offset %s",
        )

    # ---- raw records

    def take_raw(self, records: Sequence[RawRecords]) -> None:
        """Fingerprint raw records, and append packets of them."""
        shards = self._participant.shards
        owned = [run for run in records if run.partition in shards]
        for partition, batch in self._batches.read(owned):
            shards[partition].stream.add(batch)
        self.append_packets()

    def append_packets(self) -> None:
        """Append what is to be sent now, or to be sent again."""
        with self._metrics.stage("append"):
            for packet in self._participant.packets():
                value = self._codec.encode(packet)
                self._metrics.internal_bytes("log", len(value))
                future = self._appender.append(self._topics.log, value)
                future.add_done_callback(partial(self._packet_appended, packet))

    def _packet_appended(self, packet: Packet, future: asyncio.Future[int]) -> None:
        if future.cancelled() or (error := future.exception()) is None:
            return
        if not isinstance(error, AppendUnknownError):
            self._fail(error)
            return
        # Whether it is in the log or not, it is sent again: a packet that is there twice counts
        # once.
        partition = packet.chain.partition
        logger.warning("sending a packet of shard %d again: %s", partition, error)
        shard = self._participant.shards.get(partition)
        if shard is not None:
            shard.stream.lost(packet)
            asyncio.get_running_loop().call_later(_RETRY_SECONDS, self.append_packets)

    # ---- queries

    async def ask(self, query: Query) -> None:
        """Append a query; its answer will be in ``participant.answers``.

        Raises ``AppendUnknownError``.
        """
        await self._appender.append(self._topics.log, self._codec.encode(query))

    # ---- the log

    def take_log(self, batch: LogRecords) -> list[Heeded]:
        """Read records of the log, look up what is new, and report; return what is decided."""
        participant = self._participant
        heeded: list[Heeded] = []
        skipped, refused = participant.packets_skipped, participant.controls_refused
        with self._metrics.stage("lookup"):
            for offset, value, timestamp_ms in batch.records:
                control = self._read(offset, value, timestamp_ms)
                if control is not None:
                    heeded.append(control)
        packets = participant.packets_skipped - skipped
        controls = participant.controls_refused - refused
        self._metrics.packet_skipped(packets)
        self._metrics.control_refused(controls)
        self._out_of_chain.note(participant.replica.position, packets + controls)
        self.report()
        self.append_packets()
        return heeded

    def report(self) -> None:
        """Look up all packets that wait for it, and report what was found."""
        while True:
            with self._metrics.stage("lookup"):
                before = self._participant.index.candidates_seen
                report = self._participant.report(self._limit)
            if report is None:
                return
            candidates = self._participant.index.candidates_seen - before
            undecided = self._participant.replica.undecided
            packets = [undecided.get(each.offset) for each in report.packets]
            documents = sum(len(item) for item in packets if isinstance(item, Packet))
            self._metrics.candidates(candidates, documents)
            self._sample_buckets()
            self._send(report)

    def _sample_buckets(self) -> None:
        """Note the fullest bucket of one of the documents that wait; once a second."""
        if time.monotonic() - self._sampled_at < _SAMPLE_SECONDS:
            return
        self._sampled_at = time.monotonic()
        item = next(iter(self._participant.replica.undecided.values()), None)
        if item is None or not len(item.columns) or item.columns.undecidable[0]:
            return
        index = self._participant.index
        first = prints_of(index.scheme, item.columns, np.zeros(1, dtype=np.intp))
        counts = index.bucket_counts(first)
        self._on_bucket(counts.fullest)
        self._metrics.bucket_documents([counts.fullest])

    def _send(self, report: Report) -> None:
        if not report.shards:
            return
        if self._participant.decider is not None:
            self._on_report(report)
            return
        value = self._codec.encode_report(report)
        self._metrics.internal_bytes("reports", len(value))
        future = self._appender.append(self._topics.reports, value)
        future.add_done_callback(self._report_appended)

    def _report_appended(self, future: asyncio.Future[int]) -> None:
        if future.cancelled() or (error := future.exception()) is None:
            return
        if not isinstance(error, AppendUnknownError):
            self._fail(error)
            return
        logger.warning("looking packets up again: %s", error)
        asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._report_again)

    def _report_again(self) -> None:
        self._participant.look_up_again()
        self.report()

    def _read(self, offset: int, value: bytes, timestamp_ms: int) -> Heeded | None:
        where = f"{self._topics.log}/0@{offset}"
        try:
            record = self._codec.decode(value, where)
        except LogVersionError:
            raise  # others heed it: to go on without it would be to read another log
        except (OtherIndexError, LogDecodeError) as error:
            self._foreign.note(error)
            self._metrics.foreign_record("log")
            self._participant.replica.skip(offset)
            return None
        heeded = self._participant.read(offset, record, timestamp_ms)
        if offset in self._participant.replica.undecided:
            self._undecided_since.append((offset, timestamp_ms))
        return heeded

    def measure(self) -> None:
        """Set the metrics of what waits for a decision, and for how long."""
        undecided = self._participant.replica.undecided
        since = self._undecided_since
        while since and since[0][0] not in undecided:
            since.popleft()
        age = time.time() - since[0][1] / _MILLISECONDS if since else 0.0
        documents = sum(len(item.columns) for item in undecided.values())
        self._metrics.undecided(documents, max(0.0, age))

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, FirstseenError):
            self._on_failure(error)
        else:
            self._on_failure(FirstseenError(f"an append failed: {error!r}"))
