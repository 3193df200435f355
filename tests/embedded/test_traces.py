"""A document's trace through a whole worker: producer, spans and output have the same one."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.short_documents import short_documents
from tests.rigs.workers.stream_harness import Stream
from tests.rigs.workers.stream_outputs import Raw

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"


def test_a_trace_goes_on_behind_the_filter(broker: Broker, tmp_path: Path) -> None:
    documents = [each.value for each in short_documents(random.Random(1), 2)]
    parents = [f"00-{TRACE}-{SPAN}-{flags}".encode() for flags in ("01", "00", "01")]
    values = [*documents, b"{no JSON"]
    options = ("traces=console",)
    with Stream(broker, tmp_path, raw_partitions=1, options=options) as stream:
        worker = stream.started()
        stream.send(
            Raw(b"key", value, (("traceparent", parent),))
            for value, parent in zip(values, parents, strict=True)
        )
        outputs = stream.settle()
        worker.stop_gently()
        spans = spans_in(worker.log_text())
    roots = [each for each in spans if each["name"] == "firstseen"]
    got = {
        each.said.source.offset: dict(each.record.headers)["traceparent"] or b""
        for each in outputs.records
    }
    assert got[1] == parents[1], "it was not sampled"
    for offset, span in zip((0, 2), roots, strict=True):
        assert span["parent_id"] == f"0x{SPAN}"
        assert got[offset].decode() == f"00-{TRACE}-{span['context']['span_id'][2:]}-01"
        children = [each for each in spans if each["parent_id"] == span["context"]["span_id"]]
        assert children[-1]["end_time"] == span["end_time"]
    first, last = (each["attributes"] for each in roots)
    assert (first["firstseen.verdict"], last["firstseen.dead_letter"]) == ("unique", "not_json")


def spans_in(text: str) -> list[dict[str, Any]]:
    """Return the spans that OpenTelemetry's console exporter wrote among the lines of a log."""
    decoder = json.JSONDecoder()
    spans = []
    at = text.find('{\n    "name"')
    while at >= 0:
        span, end = decoder.raw_decode(text, at)
        spans.append(span)
        at = text.find('{\n    "name"', end)
    return spans
