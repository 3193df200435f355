"""A broken format, its repair, a replay: the documents end on unique, each exactly once."""

from __future__ import annotations

import io
import json
import random
import time
from contextlib import redirect_stdout
from pathlib import Path

from streams.cli.main import main
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.short_documents import START_MS, WORDS
from tests.rigs.workers.stream_harness import Stream
from tests.rigs.workers.stream_outputs import Outputs, Raw

COUNT = 12
SECONDS = 90.0


def replay(stream: Stream, *arguments: str) -> dict[str, int]:
    """Run `firstseen dlq replay`; return its account."""
    names = stream.settings.topics
    settings = {
        "topics.raw": names.raw,
        "topics.dead_letters": names.dead_letters,
        "delivery": stream.settings.delivery.value,
    }
    options = ["--broker", stream.settings.brokers]
    options += ["--application-id", stream.settings.application_id]
    for name, value in settings.items():
        options += ["--set", f"{name}={value}"]
    with redirect_stdout(io.StringIO()) as out:
        assert main(["dlq", "replay", *options, *arguments, "--json"]) == 0
    account: dict[str, int] = json.loads(out.getvalue())
    return account


def test_repaired_and_replayed(broker: Broker, tmp_path: Path) -> None:
    with Stream(broker, tmp_path) as stream:
        worker = stream.started()
        rng = random.Random(5)
        documents = [
            Raw(
                b"d%d" % number,
                json.dumps({"body": " ".join(rng.choices(WORDS, k=40))}).encode(),
                (("trace", b"%d" % number),),
                START_MS + number,
            )
            for number in range(COUNT)
        ]
        stream.send([*documents, Raw(b"broken", b"{", timestamp_ms=START_MS)])
        assert len(stream.settle().dead_letters) == COUNT + 1
        worker.stop_gently()

        stream.started("fields.text=body")
        first = replay(stream, "--all")
        second = replay(stream, "--reason", "missing_text")
        outputs = read_until(stream, 2 * (COUNT + 1))

        assert (first["sent"], second["sent"], second["replayed_before"]) == (COUNT + 1, 0, COUNT)
        uniques = [output.record for output in outputs.uniques.values()]
        assert sorted((r.key, r.value, r.timestamp_ms, r.headers[0]) for r in uniques) == sorted(
            (raw.key, raw.value, raw.timestamp_ms, raw.headers[0]) for raw in documents
        )
        again = [o.record for o in outputs.records if o.record.key == b"broken"]
        assert [dict(record.headers).get("firstseen-redeliveries") for record in again] == [
            None,
            b"1",
        ]
        assert replay(stream, "--all", "--max-redeliveries", "1")["at_cap"] == 1


def read_until(stream: Stream, count: int) -> Outputs:
    """Read outputs until there are so many."""
    deadline = time.monotonic() + SECONDS
    while len(stream.outputs.records) < count:
        stream.outputs.read()
        assert time.monotonic() < deadline, f"{len(stream.outputs.records)} of {count} outputs"
    stream.outputs.read_to_ends()
    return stream.outputs
