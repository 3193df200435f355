"""Measures the cost of traces: CPU time of spans per document, at several shares of samples.

Every record has a ``traceparent``. Spans are encoded for a collector and not sent. Each round also
measures a fingerprint of the profile ``wide``, so that the cost can be given as a share of a
worker's CPU time per document on any machine.

    python -m benchmarks.traces [--documents N] [--rounds R] [--json -]
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased

from benchmarks.command import add_number, new_parser
from benchmarks.report import publish
from benchmarks.texts import generated_documents
from simhash_core.documents import RawRecord, SourcePosition
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import profile_named
from simhash_core.verdicts import Unique
from streams.worker.fingerprint import PendingRecord
from streams.worker.traces import PARENT, DocumentTraces

FINGERPRINTS_PER_DOCUMENT: Final = 1.4
"""A worker's CPU time for a document of ``wide`` without traces, in fingerprints of 500 characters:
175 µs (docs/scale.md, row a), and 125 µs on the same machine."""
_FINGERPRINTED: Final = 2_000
_CHARACTERS: Final = 500
_SHARES: Final = (0.0, 0.01, 0.1)
_BATCH: Final = 500
_PARENT: Final = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-"


class _Encoding(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        encode_spans(spans).SerializeToString()
        return SpanExportResult.SUCCESS


def seconds(documents: int, share: float, *, traced: bool = True) -> float:
    """Return the process's CPU time for ``documents`` documents; without spans if not traced."""
    provider = TracerProvider(sampler=ParentBased(ALWAYS_OFF), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(_Encoding()))
    traces = DocumentTraces(provider)
    every = round(1 / share) if share else documents + 1
    began = time.process_time()
    for first in range(0, documents, _BATCH):
        batch = []
        for offset in range(first, first + _BATCH):
            flags = b"00" if (offset + 1) % every else b"01"
            source = SourcePosition("raw-documents", 0, offset)
            record = RawRecord(b"", b"", 0, ((PARENT, _PARENT + flags),))
            if traced:
                record = traces.begin(source, record)
            batch.append(PendingRecord(source, record, verdict=Unique()))
        if traced:
            last = [(0, first + _BATCH - 1)]
            for passed in (traces.bundled, traces.logged, traces.decided):
                passed(last)
            said = [(each.source, each.document_id, each.verdict) for each in batch]
            traces.committed(said, [], [(0, first + _BATCH)])
    provider.force_flush()
    return time.process_time() - began


def document_us(fingerprinter: Fingerprinter, texts: Sequence[str]) -> float:
    """Return about the CPU time of a worker for a document, in microseconds."""
    began = time.process_time()
    fingerprinter.fingerprint_batch(texts)
    return (time.process_time() - began) / len(texts) * 1e6 * FINGERPRINTS_PER_DOCUMENT


def main() -> None:
    parser = new_parser("benchmarks.traces", __doc__)
    add_number(parser, "--documents", 20_000, "documents of each run")
    add_number(parser, "--rounds", 5, "rounds of each variant")
    chosen = parser.parse_args()
    documents = chosen.documents
    fingerprinter = Fingerprinter(profile_named("wide"), remember=False)
    texts = generated_documents(_FINGERPRINTED, _CHARACTERS)
    document_us(fingerprinter, texts)  # loads the dictionaries
    turns: dict[float, list[tuple[float, float]]] = {share: [] for share in _SHARES}
    for _ in range(chosen.rounds):
        document = document_us(fingerprinter, texts)
        without = seconds(documents, 0.0, traced=False)
        for share, taken in turns.items():
            cost = (seconds(documents, share) - without) / documents * 1e6
            taken.append((cost, cost / document))
    figures = []
    for share, taken in turns.items():
        us, of_a_document = map(statistics.median, zip(*taken, strict=True))
        figures.append({"sampled": share, "us": round(us, 2), "share": round(of_a_document, 4)})
    publish(figures, chosen.json)


if __name__ == "__main__":
    main()
