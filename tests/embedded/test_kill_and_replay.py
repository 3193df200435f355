"""Whole workers are killed by SIGKILL at random points while documents come, and recover.

In a round of kills, some documents come while no worker runs. Then a worker starts, and more come,
a few at a time. It is killed 0.2 to 3 seconds after its shards were open. In a fifth of the rounds
another worker is killed before that, while it starts. On Kafka the workers use one of two state
directories at random, so that their state is often behind the changelog. KILL_ROUNDS=20 runs more
rounds.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.rigs.brokers.broker import Broker
from tests.rigs.waiting import await_that
from tests.rigs.workers.short_documents import START_MS, WORDS, short_documents
from tests.rigs.workers.stream_harness import Stream, Worker
from tests.rigs.workers.stream_outputs import Outputs, Raw
from tests.unit.cli.running import report_of

ROUNDS = int(os.environ.get("KILL_ROUNDS") or 4)
DOCUMENTS = 750 * ROUNDS
RAW_PARTITIONS = 3
KILL_SECONDS = (0.2, 3.0)
START_KILL_SECONDS = (0.5, 4.0)
TURN_SECONDS = 0.05
STARTS_KILLED = 0.2
MACHINES = ("machine-0", "machine-1")
BATCHES = (
    (),
    ("batch.documents=50", "batch.bundles=4"),
    ("batch.documents=7", "batch.bundles=2", "in_flight.documents=100"),
)
"""Batch sizes, of which each worker has one; small ones give more points for a kill."""


def random_worker(stream: Stream, rng: random.Random) -> Worker:
    machines = MACHINES if stream.broker.supports_transactions else MACHINES[:1]
    worker = stream.worker(*rng.choice(BATCHES), state=rng.choice(machines))
    worker.start()
    return worker


def feed(stream: Stream, queue: Iterator[Raw], seconds: float, records: int) -> None:
    """Send records a few at a time, at a rate with which they last for the longest round."""
    a_turn = max(1, round(records * TURN_SECONDS / KILL_SECONDS[1]))
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        stream.send(islice(queue, a_turn))
        stream.outputs.read(min(TURN_SECONDS, max(0.0, until - time.monotonic())))


@pytest.mark.slow
@pytest.mark.timeout(150 * ROUNDS)
def test_kills_lose_and_spoil_nothing(broker: Broker, tmp_path: Path) -> None:
    rng = random.Random(7)
    queue = short_documents(rng, DOCUMENTS)
    share = DOCUMENTS // (ROUNDS + 1)
    kills_with_records_under_way = 0
    with Stream(broker, tmp_path, raw_partitions=RAW_PARTITIONS) as stream:
        for number in range(1, ROUNDS + 1):
            due = number * share - len(stream.sent)
            stream.send(islice(queue, max(0, due - share // 2)))
            if rng.random() < STARTS_KILLED:
                worker = random_worker(stream, rng)
                time.sleep(rng.uniform(*START_KILL_SECONDS))
                worker.kill()
            worker = random_worker(stream, rng)
            worker.await_ready()
            feed(stream, queue, rng.uniform(*KILL_SECONDS), share // 2)
            worker.kill()
            stream.outputs.read_to_ends()
            kills_with_records_under_way += stream.open > 0
        stream.send(queue)
        worker = stream.started(state=MACHINES[0])
        outputs = stream.settle()
        worker.stop_gently()
        outputs.read_to_ends()

        may_repeat = not broker.supports_transactions
        stream.judge.conserved(stream.sent, outputs, repeats_allowed=may_repeat)
        stream.judge.unchanged(stream.sent, outputs)
        stream.judge.ordered(outputs)
        stream.judge.separated(stream.sent, outputs)
        stream.judge.grounded(stream.sent, outputs)
        verdicts = [len(outputs.uniques), len(outputs.duplicates), len(outputs.dead_letters)]
        assert sum(verdicts) == DOCUMENTS
        assert min(verdicts) > 0
    assert kills_with_records_under_way > 0, "all kills came when nothing was to be done"


# ---- replay

COUNT = 12


def replay(stream: Stream, *arguments: str) -> dict[str, Any]:
    settings = stream.settings
    options = [
        *("--broker", settings.brokers, "--application-id", settings.application_id),
        f"--set=topics.raw={settings.topics.raw}",
        f"--set=topics.dead_letters={settings.topics.dead_letters}",
        f"--set=delivery={settings.delivery.value}",
    ]
    return report_of("dlq", "replay", *options, *arguments)


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
