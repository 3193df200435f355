"""Traces: each document that its producer sampled has a span from raw record to output.

A raw record belongs to a trace if it has the header ``traceparent`` (W3C Trace Context, level 1)
with the flag "sampled". Its outputs and dead letters get the ``traceparent`` of the span, so that
their readers can continue the trace. For other records, only the headers are checked.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from enum import IntEnum
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

import msgspec
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.trace import Span, SpanKind, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from simhash_core.verdicts import DuplicateOf, Rejection, Verdict, verdict_name
from streams.settings.settings import Settings, TraceExport

if TYPE_CHECKING:
    from simhash_core.documents import Headers, RawRecord, SourcePosition

PARENT: Final = "traceparent"
_STATE: Final = "tracestate"
_SAMPLED: Final = 1
_FLAGS: Final = slice(-2, None)  # of a traceparent: two hexadecimal digits
_FLUSH_SECONDS: Final = 2.0
_OPEN_MAX: Final = 10_000  # limit of open spans; further documents get none


class SpanStage(IntEnum):
    """The stages of a document; each of them is a child span."""

    INTAKE = 0  # it is read, fingerprinted, and waits for its bundle
    LOG = 1  # until the broker has its bundle
    DECISION = 2  # all workers look it up, and it is decided
    COMMIT = 3  # it is written, with its offset, in one transaction


class _Open:
    """The span of a document that has no output yet."""

    def __init__(self, span: Span, began: int) -> None:
        self.span = span
        self.stage = SpanStage.INTAKE
        self.since = began


class DocumentTraces:
    """The spans of one worker's documents, on its event loop; ``now_ns`` is the time of day."""

    def __init__(self, provider: TracerProvider, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("firstseen", version("firstseen"))
        self._context = TraceContextTextMapPropagator()
        self._now_ns = now_ns
        self._open: dict[int, dict[int, _Open]] = {}
        self._count = 0

    def begin(self, source: SourcePosition, record: RawRecord) -> RawRecord:
        """Return the record; if its producer sampled it, with the span as ``traceparent``."""
        at = next((n for n, (name, _) in enumerate(record.headers) if name == PARENT), None)
        if at is None or self._count >= _OPEN_MAX or not _is_sampled(record.headers[at][1]):
            return record
        parent = self._context.extract(
            {
                name: value.decode("ascii", "replace")
                for name, value in record.headers
                if name in (PARENT, _STATE) and value is not None
            }
        )
        now = self._now_ns()
        span = self._tracer.start_span("firstseen", parent, SpanKind.CONSUMER, start_time=now)
        if not span.is_recording():  # there is no valid traceparent
            return record
        span.set_attributes(
            {
                "messaging.system": "kafka",
                "messaging.destination.name": source.topic,
                "messaging.destination.partition.id": str(source.partition),
                "messaging.kafka.offset": source.offset,
                "firstseen.shard": source.partition,
            }
        )
        self._open.setdefault(source.partition, {})[source.offset] = _Open(span, now)
        self._count += 1
        return msgspec.structs.replace(record, headers=self._headers(record.headers, at, span))

    def bundled(self, ends: Iterable[tuple[int, int]]) -> None:
        """Note that a bundle is sent; ``ends`` are its partitions with their last offsets in it."""
        self._passed(SpanStage.INTAKE, ends)

    def logged(self, ends: Iterable[tuple[int, int]]) -> None:
        self._passed(SpanStage.LOG, ends)

    def decided(self, ends: Iterable[tuple[int, int]]) -> None:
        self._passed(SpanStage.DECISION, ends)

    def _passed(self, stage: SpanStage, ends: Iterable[tuple[int, int]]) -> None:
        if not self._count:
            return
        now = self._now_ns()
        for partition, last in ends:
            for offset, each in self._open.get(partition, {}).items():
                if offset <= last and each.stage <= stage:
                    self._end_stage(each, now)
                    each.stage = SpanStage(stage + 1)

    def committed(
        self,
        outputs: Iterable[tuple[SourcePosition, str, Verdict | None]],
        rejections: Iterable[Rejection],
        nexts: Iterable[tuple[int, int]],
    ) -> None:
        """End the spans of documents before the next offset of each partition.

        ``outputs``: source, id and verdict of each.
        """
        if not self._count:
            return
        for source, document_id, verdict in outputs:
            each = self._open.get(source.partition, {}).get(source.offset)
            if each is not None and verdict is not None:
                _describe(each.span, document_id, verdict)
        for rejection in rejections:
            each = self._open.get(rejection.source.partition, {}).get(rejection.source.offset)
            if each is not None:
                each.span.set_attribute("firstseen.dead_letter", rejection.reason.value)
        now = self._now_ns()
        for partition, following in nexts:
            there = self._open.get(partition, {})
            for offset in [each for each in there if each < following]:
                self._end_stage(there[offset], now)
                self._end(partition, offset, now)

    def drop(self, partition: int) -> None:
        """End the spans of a shard that is closed; its documents will be read again."""
        for offset, each in [*self._open.get(partition, {}).items()]:
            each.span.set_attribute("firstseen.read_again", value=True)
            self._end(partition, offset, self._now_ns())

    def close(self) -> None:
        """Send the remaining spans, for at most two seconds."""
        flush = threading.Thread(target=self._provider.force_flush, name="traces", daemon=True)
        flush.start()
        flush.join(_FLUSH_SECONDS)

    def _end(self, partition: int, offset: int, now: int) -> None:
        there = self._open[partition]
        there.pop(offset).span.end(now)
        self._count -= 1
        if not there:
            del self._open[partition]

    def _end_stage(self, each: _Open, now: int) -> None:
        span = self._tracer.start_span(
            each.stage.name.lower(), set_span_in_context(each.span), start_time=each.since
        )
        span.end(now)
        each.since = now

    def _headers(self, headers: Headers, at: int, span: Span) -> Headers:
        carrier: dict[str, str] = {}
        self._context.inject(carrier, set_span_in_context(span))
        return (*headers[:at], (PARENT, carrier[PARENT].encode()), *headers[at + 1 :])


def document_traces(settings: Settings, writer: str) -> DocumentTraces:
    """Return the spans of a worker, which are exported as set in ``settings.traces``.

    OpenTelemetry's variables ``OTEL_EXPORTER_OTLP_…`` set the destination.
    """
    own = {"service.instance.id": writer}
    if "OTEL_SERVICE_NAME" not in os.environ:
        own["service.name"] = settings.application_id
    provider = TracerProvider(
        # Only documents that a producer has sampled; otherwise each document would be a trace.
        sampler=ParentBased(ALWAYS_OFF),
        resource=Resource.create(own),
        shutdown_on_exit=False,  # a shutdown could delay the end of the process
    )
    is_console = settings.traces is TraceExport.CONSOLE
    exporter = ConsoleSpanExporter() if is_console else OTLPSpanExporter()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return DocumentTraces(provider)


def _is_sampled(traceparent: bytes | None) -> bool:
    try:
        return bool(int((traceparent or b"0")[_FLAGS], 16) & _SAMPLED)
    except ValueError:
        return False


def _describe(span: Span, document_id: str, verdict: Verdict) -> None:
    span.set_attributes({"firstseen.id": document_id, "firstseen.verdict": verdict_name(verdict)})
    if isinstance(verdict, DuplicateOf):
        span.set_attributes(
            {
                "firstseen.original": verdict.original_id,
                "firstseen.distance": verdict.distance,
                "firstseen.method": verdict.method.value,
            }
        )
