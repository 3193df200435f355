"""The trace of a document: its spans, and the traceparent of its output."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased

from simhash_core.documents import Headers, RawRecord, SourcePosition
from simhash_core.verdicts import (
    DuplicateOf,
    Method,
    Rejection,
    RejectionReason,
    Unique,
)
from streams.settings.settings import Settings, TraceExport
from streams.worker.fingerprint import PendingRecord
from streams.worker.traces import _FLUSH_SECONDS, PARENT, DocumentTraces, document_traces

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"  # the example of W3C Trace Context, section 3.2
SPAN = "00f067aa0ba902b7"
STATE = ("tracestate", b"congo=t61rcWkgMzE")
OTHER = ("content-type", b"application/json")


class Traced:
    def __init__(self) -> None:
        self.exported = InMemorySpanExporter()
        provider = TracerProvider(sampler=ParentBased(ALWAYS_OFF), shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.exported))
        self._now = 0
        self.traces = DocumentTraces(provider, self.now)

    def now(self) -> int:
        self._now += 1_000
        return self._now

    def begin(self, offset: int, flags: str = "01") -> PendingRecord:
        parent = f"00-{TRACE}-{SPAN}-{flags}".encode()
        return self.read(offset, (OTHER, (PARENT, parent), STATE))

    def read(self, offset: int, headers: Headers) -> PendingRecord:
        source = SourcePosition("raw-documents", 3, offset)
        return PendingRecord(source, self.traces.begin(source, RawRecord(b"", b"", 0, headers)))

    def commit(self, following: int, *outputs: PendingRecord) -> None:
        said = [(each.source, each.document_id, each.verdict) for each in outputs]
        self.traces.committed(said, [], [(3, following)])

    @property
    def spans(self) -> list[ReadableSpan]:
        return [*self.exported.get_finished_spans()]

    @property
    def documents(self) -> list[ReadableSpan]:
        return [each for each in self.spans if each.name == "firstseen"]


@pytest.fixture
def traced() -> Traced:
    return Traced()


def attributes(span: ReadableSpan) -> dict[str, object]:
    return {
        name.removeprefix("firstseen."): value
        for name, value in (span.attributes or {}).items()
        if name.startswith("firstseen.")
    }


def span_id(pending: PendingRecord) -> str:
    """Return the span that the record's traceparent names."""
    version, trace, span, flags = dict(pending.record.headers)[PARENT].decode().split("-")  # type: ignore[union-attr]
    assert (version, trace, flags) == ("00", TRACE, "01")
    return span


def test_a_document_has_a_span_for_each_stage_and_its_output_names_the_first(
    traced: Traced,
) -> None:
    document = traced.begin(7)
    own = span_id(document)
    assert document.record.headers == (OTHER, (PARENT, f"00-{TRACE}-{own}-01".encode()), STATE)
    traces = traced.traces
    # A bundle that is sent again changes nothing.
    for stage in (traces.bundled, traces.logged, traces.bundled, traces.logged, traces.decided):
        stage([(3, 7)])
    original = SourcePosition("raw-documents", 1, 2)
    document.document_id = "b"
    document.verdict = DuplicateOf("a", original, 0, 5, 0, Method.NEAR, 0.9)
    traced.commit(8, document)
    (root,) = traced.documents
    assert root.context is not None
    assert root.parent is not None
    assert (f"{root.context.span_id:016x}", f"{root.parent.span_id:016x}") == (own, SPAN)
    assert attributes(root) == {
        "shard": 3,
        "id": "b",
        "verdict": "near_duplicate",
        "original": "a",
        "distance": 5,
        "method": "near",
    }
    stages = [each for each in traced.spans if each is not root]
    assert [each.name for each in stages] == ["intake", "log", "decision", "commit"]
    assert all(each.parent is not None and each.parent == root.context for each in stages)
    times = [(each.start_time, each.end_time) for each in stages]
    assert [end for _, end in times[:-1]] == [start for start, _ in times[1:]]
    assert (root.start_time, root.end_time) == (times[0][0], times[-1][1])


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (OTHER,),
        ((PARENT, f"00-{TRACE}-{SPAN}-00".encode()),),
        ((PARENT, f"00-{'0' * 32}-{SPAN}-01".encode()),),
        ((PARENT, b"no context-01"),),
        ((PARENT, b"\xff\xff"),),
        ((PARENT, None),),
    ],
)
def test_a_record_that_its_producer_did_not_sample_stays_as_it_is(
    traced: Traced, headers: Headers
) -> None:
    document = traced.read(1, headers)
    traced.commit(2, document)
    assert document.record.headers == headers
    assert traced.spans == []


def test_only_documents_before_the_next_offset_are_ended(
    traced: Traced,
) -> None:
    first, second = traced.begin(1), traced.begin(2)
    first.verdict = Unique()
    traced.commit(2, first)
    assert [attributes(each)["verdict"] for each in traced.documents] == ["unique"]
    rejection = Rejection(second.source, second.record, RejectionReason.TOO_LARGE, "5 MB")
    traced.traces.committed([], [rejection], [(3, 3)])
    assert attributes(traced.documents[1]) == {"shard": 3, "dead_letter": "too_large"}


def test_the_span_of_a_closed_shard_says_that_the_document_is_read_again(traced: Traced) -> None:
    traced.begin(1)
    traced.traces.drop(3)
    again = traced.begin(1)
    again.verdict = Unique()
    traced.commit(2, again)
    assert [attributes(each).get("read_again") for each in traced.documents] == [True, None]


def test_documents_beyond_the_limit_go_on_without_a_span(
    traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.worker.traces._OPEN_MAX", 2)
    documents = [traced.begin(each) for each in range(3)]
    assert [span_id(each) == SPAN for each in documents] == [False, False, True]
    traced.commit(3, *documents)
    assert len(traced.documents) == 2
    assert span_id(traced.begin(4)) != SPAN


@pytest.fixture
def collector() -> Iterator[HTTPServer]:
    """Yield an OpenTelemetry collector, which keeps the bodies of its requests."""

    class Requests(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            BODIES.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

    BODIES.clear()
    with HTTPServer(("127.0.0.1", 0), Requests) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.05,))
        serving.start()
        yield server
        server.shutdown()
        serving.join()


BODIES: list[bytes] = []


def traces_sent_to(port: int, monkeypatch: pytest.MonkeyPatch) -> DocumentTraces:
    """Make traces of a worker with a document whose spans have ended and are not sent yet."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", f"{2 * _FLUSH_SECONDS}")
    traces = document_traces(Settings(traces=TraceExport.OTLP), "worker")
    parent = (PARENT, f"00-{TRACE}-{SPAN}-01".encode())
    traces.begin(SourcePosition("raw-documents", 3, 1), RawRecord(b"", b"", 0, (parent,)))
    traces.committed([], [], [(3, 2)])
    return traces


def test_a_worker_that_ends_sends_its_last_spans(
    collector: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces = traces_sent_to(collector.server_port, monkeypatch)
    assert BODIES == []
    traces.close()
    (body,) = BODIES
    assert body.count(bytes.fromhex(TRACE)) == len(["commit", "firstseen"])


def test_a_collector_that_does_not_answer_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        traces = traces_sent_to(silent.getsockname()[1], monkeypatch)
        begun = time.monotonic()
        traces.close()
        assert time.monotonic() - begun < 10 * _FLUSH_SECONDS
    for each in threading.enumerate():  # it would go on beside other tests
        if each.name == "traces":
            each.join()
