"""Looking texts up where shards are shared, and while a batch is being committed."""

from __future__ import annotations

import json
import sys
import time
from http import HTTPStatus
from pathlib import Path
from typing import Any

from streams.exit_codes import ExitCode
from tests.brokers.broker import Broker
from tests.cli.running import firstseen
from tests.integration.stream_harness import Stream, Worker
from tests.integration.stream_outputs import Raw
from tests.ops_page.live_worker import EDITED, ORIGINAL, SECONDS, STRANGER, ask, now_ms

TOKEN = "a-token-for-both-of-them"  # noqa: S105 - a test's
SLOW_SECONDS = 6


def check(worker: Worker, text: str) -> Any:  # noqa: ANN401 - JSON
    """What a worker says of a text."""
    body = json.dumps({"text": text}).encode()
    reply = ask(
        worker,
        "POST",
        "/api/check",
        body,
        Content_Type="application/json",
        Authorization=f"Bearer {TOKEN}",
    )
    assert reply.status == HTTPStatus.OK, reply.body
    return reply.json


def shards_of(worker: Worker) -> list[int]:
    """The shards that a worker has open."""
    status = ask(worker, "GET", "/api/status", Authorization=f"Bearer {TOKEN}").json
    return [each["partition"] for each in status["shards"] if each["state"] == "ready"]


def send(stream: Stream, *texts: str) -> None:
    """Send documents without waiting for their outputs."""
    stream.send(
        Raw(None, json.dumps({"id": f"d{n}", "text": text}).encode(), timestamp_ms=now_ms())
        for n, text in enumerate(texts)
    )


def test_each_worker_knows_its_shards_and_together_they_know_all(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    """Given two workers with a shard each, then one alone names the shard that it has not looked
    at, and `firstseen check` with the addresses of both knows all; without the token, or with
    another one, it ends with 78.
    """
    token = tmp_path / "token"
    token.write_text(TOKEN, "utf-8")
    options = (f"web.token_file={token}", "web.open_monitoring=true")
    with Stream(kafka_broker, tmp_path, raw_partitions=1) as stream:
        workers = [stream.worker(*options, state=f"state-{n}") for n in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.await_ready()
        deadline = time.monotonic() + SECONDS
        while sorted(shards_of(workers[0]) + shards_of(workers[1])) != [0, 1]:
            assert time.monotonic() < deadline, "the shards were not shared"
            time.sleep(0.2)
        send(stream, ORIGINAL)
        stream.settle()

        (mine,), answer = shards_of(workers[0]), check(workers[0], EDITED)
        urls = [part for worker in workers for part in ("--url", worker.url)]
        environ = {"FIRSTSEEN_WEB__TOKEN_FILE": str(token)}
        both = firstseen("check", "--text", EDITED, *urls, "--json", environ=environ)
        refused = firstseen("check", "--text", EDITED, *urls)

    assert [each["shard"] for each in answer["looked_at"]] == [mine]
    assert answer["not_looked_at"] == [{"shard": 1 - mine, "why": "this worker does not have it"}]
    joined = json.loads(both.stdout)
    assert (joined["verdict"], joined["complete"]) == ("near_duplicate", True)
    assert [each["shard"] for each in joined["looked_at"]] == [0, 1]
    assert refused.returncode == ExitCode.CONFIGURATION
    assert "web.token" in refused.stderr


def test_what_is_not_committed_is_not_seen(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given a shard in the middle of a transaction, when a text of that batch is looked up, then
    the answer is that the shard is busy, not what it may yet have to forget; once it is committed,
    the text is known.
    """
    with Stream(kafka_broker, tmp_path, raw_partitions=1) as stream:
        worker = stream.worker(f"web.token={TOKEN}", "web.open_monitoring=true")
        module = "tests.integration.slow_worker"
        worker.start_as([sys.executable, "-m", module, str(SLOW_SECONDS)])
        worker.await_ready()
        send(stream, STRANGER)
        worker.await_log("sleeping in a transaction")

        busy = check(worker, STRANGER)
        stream.settle()
        known = check(worker, STRANGER)

    assert busy["looked_at"] == []
    assert busy["not_looked_at"] == [{"shard": 0, "why": "it is busy with a batch: try again"}]
    assert (busy["verdict"], busy["complete"]) == ("unique", False)
    assert known["verdict"] == "exact_duplicate"
