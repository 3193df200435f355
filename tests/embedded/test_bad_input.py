"""A whole worker gives each broken, unusual or huge record one output, and continues.

``tests/unit/documents`` has every reason for which a record is refused. All records are sent to one
raw partition, each with a good document behind it: if a record stopped the worker or broke its
batch, the good document would have no output.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from simhash_core.documents import SourcePosition
from streams.documents.output_records import (
    DeadLetterOutput,
    DuplicateOutput,
    ReceivedOutput,
    UniqueOutput,
)
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.short_documents import short_documents
from tests.rigs.workers.stream_harness import Stream, Worker
from tests.rigs.workers.stream_outputs import Outputs, Raw

MAX_RECORD_BYTES = 4 * 1024 * 1024
MILLION = 1_000_000
YEAR_2100_MS = 4_102_444_800_000
NONE = "no output"


class Case(NamedTuple):
    """A raw record, and its result: ``unique``, ``duplicate`` of the empty text, the reason why it
    is undecidable or refused, or NONE.
    """

    ends_as: str
    value: bytes | None
    key: bytes | None = b"key"
    timestamp_ms: int = 0


def fields(**values: object) -> bytes:
    """Return a JSON object, with a new text unless one is given."""
    return json.dumps({"text": "", **values}, ensure_ascii=True).encode()


def text_of(size: int) -> str:
    rng = random.Random(size)
    words = (f"w{rng.randrange(10**6)}" for _ in range(size // 3))
    return " ".join(words)[:size]


CASES = {
    "not JSON": Case("not_json", b"<html>502 Bad Gateway</html>"),
    "nested too deep": Case("not_json", b'{"text":' + b"[" * 100_000),
    "invalid UTF-8": Case("not_utf8", b'{"text": "\xff\xfe"}'),
    "half a surrogate pair for an id": Case("wrong_type", rb'{"text": "", "id": "\ud83d"}'),
    "an integer for an id": Case("unique", fields(id=1017, text=text_of(250))),
    "null without a key": Case("null_value", None, key=None),
    "a tombstone": Case(NONE, None, key=b"gone"),
    "2 MB": Case("unique", fields(text=text_of(2_000_000))),
    "5 MB": Case("too_large", fields(text="many words " * 460_000)),
    "a million repetitions of one word": Case("too_few_features", fields(text="la " * MILLION)),
    # All texts that normalise to nothing are equal, so the first of them is unique.
    "an empty text": Case("empty", fields()),
    "white space": Case("duplicate", fields(text=" \n\t\u3000 ")),
    "punctuation alone": Case("no_features", fields(text="……！？！？——。。。")),
    "lone surrogates alone": Case("duplicate", rb'{"text": "\ud83d \ude00 \ud83d"}'),
    "lone surrogates among words": Case(
        "unique", b'{"text": "\\ud83d ' + text_of(300).encode() + b' \\ude00"}'
    ),
    "control characters": Case("duplicate", fields(text="\x00\x01\x02\x7f")),
    "a time in 2100": Case(
        "unique", fields(text=text_of(400), timestamp="2100-01-01T00:00:00Z"), b"t", YEAR_2100_MS
    ),
    "a time in the year 10000": Case("bad_timestamp", fields(timestamp=253_402_300_800_000)),
    "an unfinished CloudEvent": Case("unique", fields(text=text_of(500), specversion="1.0")),
    "a key that is not UTF-8": Case("unique", fields(text=text_of(600)), b"\xff\xfe\xfd"),
}


class Ended(NamedTuple):
    """A worker that got all cases, the outputs, and the position of each record."""

    worker: Worker
    outputs: Outputs
    bad: dict[str, SourcePosition]
    good: dict[str, SourcePosition]


@pytest.fixture(scope="module")
def ended(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ended]:
    """Send all cases, each with a good document behind it, and return the results."""
    good = short_documents(random.Random(5), 10 * len(CASES))
    directory = tmp_path_factory.mktemp("bad-input")
    options = [f"max_record_bytes={MAX_RECORD_BYTES}"]
    # Compress them, because the embedded broker keeps five megabytes of a partition.
    with Stream(broker, directory, raw_partitions=1, options=options, compression="zstd") as stream:
        records: list[Raw] = []
        for case in CASES.values():
            following = next(raw for raw in good if raw.value != b'{"text": ')
            time_ms = case.timestamp_ms or int(time.time() * 1000)
            records.append(Raw(case.key, case.value, timestamp_ms=time_ms))
            records.append(following)
        places = stream.send(records)
        worker = stream.started()
        outputs = stream.settle()
        outputs.read_to_ends()
        bad = dict(zip(CASES, places[::2], strict=True))
        yield Ended(worker, outputs, bad, dict(zip(CASES, places[1::2], strict=True)))


def how_it_ended(said: ReceivedOutput) -> str:
    match said:
        case UniqueOutput(undecidable=reason):
            return reason or "unique"
        case DeadLetterOutput(reason=reason):
            return reason
    return "duplicate"


@pytest.mark.parametrize("name", CASES)
def test_each_record_ends_once(ended: Ended, name: str) -> None:
    """The good document behind each record has one output, too."""
    case, outputs = CASES[name], ended.outputs.of(ended.bad[name])
    (following,) = ended.outputs.of(ended.good[name])
    assert not isinstance(following.said, DeadLetterOutput)
    if case.ends_as == NONE:
        assert outputs == []
        return
    assert [how_it_ended(output.said) for output in outputs] == [case.ends_as]
    (output,) = outputs
    assert output.record.key == case.key
    if isinstance(output.said, DuplicateOutput):
        assert output.said.original == ended.bad["an empty text"]
    else:
        key_bytes = len(case.key or b"")
        kept = slice(MAX_RECORD_BYTES - key_bytes if case.ends_as == "too_large" else None)
        assert output.record.value == (None if case.value is None else case.value[kept])


def test_the_worker_runs_on_and_stops_in_order(ended: Ended) -> None:
    ended.worker.check()
    ended.worker.stop_gently()
