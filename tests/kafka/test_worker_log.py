"""The log of real workers as JSON: each change of state in one line that says why, and no texts."""

from __future__ import annotations

import http.client
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streams.errors import ExitCode
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.short_documents import WORDS
from tests.rigs.workers.stream_harness import Stream, Worker
from tests.rigs.workers.stream_outputs import Raw
from tests.rigs.workers.worker_metrics import await_shared

MARKER = "Rübezahl-4711"
JSON = "log.format=json"
FAUST_PAGES = ("/table/", "/tables/", "/graph/", "/router/", "/stats/", "/docs/")
LISTENING = "0A"


def lines_of(worker: Worker) -> list[dict[str, Any]]:
    """The lines of a log, each of which must be one JSON object."""
    return [json.loads(line) for line in worker.log_text().splitlines()]


def assert_told(worker: Worker, *texts: str) -> None:
    """The log has lines with these texts, in this order."""
    told = [f"{line['level']} {line['message']}" for line in lines_of(worker)]
    rest = iter(told)
    for text in texts:
        assert any(text in line for line in rest), f"no {text!r} in its place in {told}"


def documents(count: int) -> Iterator[Raw]:
    """Documents and a copy of each, and records that are no JSON; the marker is in all of them."""
    rng = random.Random(3)
    for number in range(count):
        text = f"{MARKER} {' '.join(rng.choices(WORDS, k=40))}"
        for name in ("first", "copy"):
            content = {"id": f"{name}-{number}", "text": text, "title": MARKER}
            yield Raw(None, json.dumps(content, ensure_ascii=False).encode())
        yield Raw(None, f'{{"text": "{MARKER}'.encode())


def listening_sockets(worker: Worker) -> set[str]:
    """The addresses on which a worker listens, as Linux tells them."""
    assert worker._process is not None
    process = Path("/proc") / str(worker._process.pid)
    held = {str(each.readlink()) for each in (process / "fd").iterdir() if each.is_symlink()}
    table = (process / "net" / "tcp").read_text("ascii").splitlines()[1:]
    rows = [row.split() for row in table]
    return {row[1] for row in rows if row[3] == LISTENING and f"socket:[{row[9]}]" in held}


def test_changes_of_state(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given a worker with documents; when a second one comes and goes, then the first one's log
    tells each change and why; when it is stopped, and started with another index, then the refusal
    is one line more. All of it is JSON, without a text of a document.

    The worker serves its own pages alone, on the loopback alone: none of Faust's.
    """
    with Stream(kafka_broker, tmp_path, raw_partitions=2, options=[JSON]) as stream:
        first = stream.started(state="first")
        stream.send(documents(5))
        stream.settle()
        assert [address[:8] for address in listening_sockets(first)] == ["0100007F"]
        for page in FAUST_PAGES:
            connection = http.client.HTTPConnection("127.0.0.1", first.port, timeout=60)
            connection.request("GET", page)
            assert connection.getresponse().status == http.client.NOT_FOUND, page
            connection.close()
        second = stream.started(state="second")
        second.stop_gently()
        await_shared([first], 2)
        first.stop_gently()
        refused = stream.worker("index.distance=9", state="first")
        refused.start()
        assert refused.await_end() == ExitCode.CONFIGURATION

        assert_told(
            first,
            "info assigned by the group: 0 1",
            "info shards opening: 0 1",
            "info shard 0 open: 0 documents, next raw offset 0",
            "info this worker leads",
            "info revoked by the group: ",
            " closed: ",
            "info assigned by the group: ",
            " documents, next raw offset ",
            "info stopping: SIGTERM",
            "info stopped: exit code 0",
        )
        assert_told(second, "caught up with", " open: ", "info stopped: exit code 0")
        assert_told(refused, "critical stopped: ")
        ends = [line for line in lines_of(refused) if line["level"] in {"error", "critical"}]
        assert len(ends) == 1, ends
        distance = stream.settings.index_profile().distance
        assert f"index.distance: there {distance}, here 9" in ends[0]["message"]
        for worker in (first, second, refused):
            assert MARKER not in worker.log_text()
            assert MARKER.encode("unicode_escape").decode() not in worker.log_text()
            assert "traceback" not in worker.log_text()
