"""Records and readers for the tests of raw and output records, and strategies for any text."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from simhash_core.documents import Document, Headers, RawRecord, SourcePosition
from simhash_core.verdicts import DuplicateOf, Method, Rejection, Undecidable, Unique, Verdict
from streams.documents.fields import FieldSettings
from streams.documents.output_records import record_view
from streams.documents.raw_documents import DocumentReader, Tombstone
from streams.kafka.producers import ProducerRecord
from streams.settings.settings import Mode, Settings
from streams.worker.fingerprint import PendingRecord
from streams.worker.outputs import OutputRules, document_records

HERE = SourcePosition("raw-documents", 3, 42)
NOW_MS = 1_714_536_000_000  # 2024-05-01T04:00:00Z
IDENTITY = (
    "firstseen-index/1 bits=64 blocks=4x16 distance=3 segmenter=rjieba-0.2.2 "
    "weighting=tfidf-sublinear idf=jieba-b9bf3ee82d5f hash=xxh3 normalization=nfkc-casefold-1 "
    "min-features=12"
)
FINGERPRINT = bytes.fromhex("9c3f00e1a7d2485b")
DEFAULT_FIELDS = FieldSettings()
RULES = OutputRules(
    IDENTITY,
    "the rules",
    "news.0b7d",
    bits=64,
    topics=Settings().topics,
    include_body=False,
    application="news",
)
WITH_BODY = replace(RULES, include_body=True)
TAG_RULES = replace(RULES, mode=Mode.TAG)

EVENT_HEADERS: Headers = (
    ("ce_specversion", b"1.0"),
    ("ce_id", b"A234-1234"),
    ("ce_source", b"/crawler/7"),
    ("ce_type", b"org.example.page"),
)
STRUCTURED: Headers = (("content-type", b"application/cloudevents+json; charset=UTF-8"),)
ENVELOPE: dict[str, Any] = {
    "specversion": "1.0",
    "id": "A234-1234",
    "source": "/crawler/7",
    "type": "org.example.page",
}


def raw(
    value: bytes | None,
    key: bytes | None = b"weather",
    headers: Headers = (),
    time_ms: int = NOW_MS,
) -> RawRecord:
    """Return a raw record; few tests depend on its key, time and headers."""
    return RawRecord(key, value, time_ms, headers)


def as_json(value: object) -> bytes:
    """Return a value as a producer writes it, with lone surrogates as escapes."""
    return json.dumps(value).encode()


def read(
    record: RawRecord, fields: FieldSettings = DEFAULT_FIELDS
) -> Document | Rejection | Tombstone:
    return DocumentReader(fields).read(HERE, record)


def read_document(record: RawRecord, fields: FieldSettings = DEFAULT_FIELDS) -> Document:
    document = read(record, fields)
    assert isinstance(document, Document), document
    return document


UNIQUE = Unique()
NEAR = DuplicateOf("weather", HERE, NOW_MS, distance=2, block=1, method=Method.NEAR)
EXACT = DuplicateOf("weather", HERE, NOW_MS, distance=0, block=0, method=Method.EXACT)


def pending(
    record: RawRecord,
    verdict: Verdict = UNIQUE,
    document_id: str = "weather",
    source: SourcePosition = HERE,
    event_time_ms: int = NOW_MS,
) -> PendingRecord:
    fingerprint = b"" if isinstance(verdict, Undecidable) else FINGERPRINT
    return PendingRecord(source, record, None, document_id, event_time_ms, fingerprint, verdict)


def output_of(decided: PendingRecord, rules: OutputRules = RULES) -> ProducerRecord:
    (output,) = document_records(decided, rules)
    return output


def view(output: ProducerRecord) -> dict[str, Any]:
    assert output.timestamp_ms is not None
    return record_view(output.key, output.value, output.timestamp_ms, tuple(output.headers))


header_names = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        [
            *("content-type", "Content-Type"),
            *("ce_specversion", "ce_id", "ce_source", "ce_type", "ce_time"),
            *("firstseen-verdict", "firstseen-redeliveries", "__connect.errors.topic"),
        ]
    ),
)
header_values = st.one_of(
    st.none(),
    st.binary(max_size=20),
    st.sampled_from([b"1.0", b"text/plain", b"application/cloudevents+json", b"application/json"]),
)
header_lists = st.lists(st.tuples(header_names, header_values), max_size=8).map(tuple)
times_ms = st.integers(-(1 << 63), (1 << 63) - 1)


def records(values: st.SearchStrategy[bytes | None]) -> st.SearchStrategy[RawRecord]:
    keys = st.one_of(st.none(), st.binary(max_size=20))
    return st.builds(RawRecord, keys, values, times_ms, header_lists)


any_text = st.text(st.characters(), max_size=30)  # it includes lone surrogates
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=8,
)
field_names = st.sampled_from(
    [
        *("text", "id", "title", "keywords", "tags", "references", "timestamp"),
        *("specversion", "source", "type", "time", "data", "data_base64", "datacontenttype"),
    ]
)
json_objects = st.dictionaries(field_names, json_values)
any_values = st.one_of(st.none(), st.binary(), json_values.map(as_json), json_objects.map(as_json))
any_records = records(any_values)
