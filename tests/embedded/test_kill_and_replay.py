"""Whole workers: killed by SIGKILL while documents come; and repaired, with a replay.

``python -m tests.rigs.workers.kill_rounds --rounds 20 --documents 20000 --broker kafka``
kills more.
"""

from __future__ import annotations

import io
import json
import random
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from streams.cli.main import main
from tests.rigs.brokers.broker import Broker
from tests.rigs.waiting import await_that
from tests.rigs.workers.kill_rounds import run_rounds
from tests.rigs.workers.short_documents import START_MS, WORDS
from tests.rigs.workers.stream_harness import Stream
from tests.rigs.workers.stream_outputs import Outputs, Raw

ROUNDS = 4
DOCUMENTS = 3_000


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_kills_lose_and_spoil_nothing(broker: Broker, tmp_path: Path) -> None:
    figures = run_rounds(broker, tmp_path, rounds=ROUNDS, documents=DOCUMENTS, seed=7)
    assert figures.problems == []
    assert (figures.lost, figures.own_original) == (0, 0)
    assert (figures.near_uniques, figures.ungrounded) == (0, 0)
    if broker.supports_transactions:
        assert figures.repeated == 0
    assert figures.kills == ROUNDS
    assert figures.kills_with_records_under_way > 0, "all kills came when nothing was to be done"
    assert figures.unique + figures.duplicates + figures.dead_letters == DOCUMENTS
    assert min(figures.unique, figures.duplicates, figures.dead_letters) > 0


# ---- replay

COUNT = 12


def replay(stream: Stream, *arguments: str) -> dict[str, int]:
    settings = stream.settings
    options = [
        *("--broker", settings.brokers, "--application-id", settings.application_id),
        f"--set=topics.raw={settings.topics.raw}",
        f"--set=topics.dead_letters={settings.topics.dead_letters}",
        f"--set=delivery={settings.delivery.value}",
    ]
    with redirect_stdout(io.StringIO()) as out:
        assert main(["dlq", "replay", *options, *arguments, "--json"]) == 0
    return dict(json.loads(out.getvalue()))


def test_documents_of_a_broken_format_end_once_after_repair_and_replay(
    broker: Broker, tmp_path: Path
) -> None:
    with Stream(broker, tmp_path) as stream:
        worker = stream.started()
        rng = random.Random(5)
        documents = []
        for number in range(COUNT):
            value = json.dumps({"body": " ".join(rng.choices(WORDS, k=40))}).encode()
            header = ("trace", b"%d" % number)
            documents.append(Raw(b"d%d" % number, value, (header,), START_MS + number))
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
        redeliveries = [dict(each.headers).get("firstseen-redeliveries") for each in again]
        assert redeliveries == [None, b"1"]
        assert replay(stream, "--all", "--max-redeliveries", "1")["at_cap"] == 1


def read_until(stream: Stream, count: int) -> Outputs:
    outputs = stream.outputs

    def are_there() -> bool:
        outputs.read()
        return len(outputs.records) >= count

    await_that(are_there, shows=lambda: f"{len(outputs.records)} of {count} outputs")
    outputs.read_to_ends()
    return outputs
