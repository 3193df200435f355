"""``firstseen check`` where shards are shared: any worker answers for the whole index."""

from __future__ import annotations

import json
import time
from http import HTTPStatus
from pathlib import Path
from typing import Any

from simhash_core.documents import SourcePosition
from streams.errors import ExitCode
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.stream_harness import Stream, Worker
from tests.rigs.workers.stream_outputs import Raw
from tests.unit.cli.running import firstseen
from tests.unit.ops_page.live_worker import EDITED, ORIGINAL, SECONDS, STRANGER, Reply, ask, now_ms

TOKEN = "a-token-for-both-of-them"  # noqa: S105 - a test's


def get(worker: Worker, path: str) -> Any:  # noqa: ANN401 - JSON
    return ask(worker, "GET", path, Authorization=f"Bearer {TOKEN}").json


def check(worker: Worker, text: str) -> Reply:
    body = json.dumps({"text": text}).encode()
    return ask(
        worker,
        "POST",
        "/api/check",
        body,
        Content_Type="application/json",
        Authorization=f"Bearer {TOKEN}",
    )


def await_each_with_a_shard(workers: list[Worker]) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        shards = [get(worker, "/api/status")["shards"] for worker in workers]
        if all([each["state"] for each in found] == ["ready"] for found in shards):
            return
        assert time.monotonic() < deadline, f"the shards are not shared: {shards}"
        time.sleep(0.2)


def send_to(stream: Stream, partition: int, text: str) -> SourcePosition:
    value = json.dumps({"id": f"d{partition}", "text": text}).encode()
    (source,) = stream.send([Raw(None, value, partition=partition, timestamp_ms=now_ms())])
    stream.settle()
    return source


def test_any_worker_answers_for_the_whole_index_even_after_the_leader_is_killed(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN, "utf-8")
    options = (f"web.token_file={token}", "web.open_monitoring=true")
    with Stream(kafka_broker, tmp_path, raw_partitions=2) as stream:
        workers = [stream.worker(*options, state=f"state-{n}") for n in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.await_ready()
        await_each_with_a_shard(workers)
        send_to(stream, 0, ORIGINAL)
        send_to(stream, 1, STRANGER)

        answers = [[check(worker, text).json for text in (EDITED, STRANGER)] for worker in workers]
        url = ("--url", workers[1].url)
        environ = {"FIRSTSEEN_WEB__TOKEN_FILE": str(token)}
        told = firstseen("check", "--text", EDITED, *url, "--json", environ=environ)
        refused = firstseen("check", "--text", EDITED, *url)
        orderings = [get(worker, "/api/status")["ordering"] for worker in workers]

        leaders = [each["leads"] for each in orderings]
        assert sorted(leaders) == [False, True]
        assert orderings[0]["leader"] == orderings[1]["leader"]
        workers[leaders.index(True)].kill()
        follower = workers[leaders.index(False)]
        deadline = time.monotonic() + SECONDS
        while (last := check(follower, EDITED)).status != HTTPStatus.OK:
            assert last.status == HTTPStatus.SERVICE_UNAVAILABLE
            assert last.json["error"]["message"]
            assert time.monotonic() < deadline, last.body
            time.sleep(0.2)

    for edited, stranger in answers:
        assert (edited["verdict"], edited["original"]["id"]) == ("near_duplicate", "d0")
        assert (stranger["verdict"], stranger["original"]["id"]) == ("exact_duplicate", "d1")
    assert answers[0] == answers[1]
    assert json.loads(told.stdout)["original"] == answers[0][0]["original"]
    assert refused.returncode == ExitCode.CONFIGURATION
    assert "web.token" in refused.stderr
    assert last.json["original"]["id"] == "d0"
