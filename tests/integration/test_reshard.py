"""Another number of shards: the index moves, and goes on where it was."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from streams.demo.corpus import generate
from tests.brokers.broker import Broker
from tests.integration.stream_harness import END_SECONDS, Stream
from tests.integration.stream_outputs import Raw

pytestmark = pytest.mark.kafka


def _documents(seed: int, count: int) -> list[Raw]:
    return [Raw(record.key, record.value) for record in generate(seed, count)]


def _reshard(stream: Stream, target: str, partitions: int) -> subprocess.CompletedProcess[str]:
    assignments = [f"topics.raw={stream.settings.topics.raw}"]
    command = [sys.executable, "-m", "streams.cli.main", "reshard", "--json"]
    command += ["--broker", stream.broker.bootstrap_servers]
    command += ["--application-id", stream.settings.application_id]
    command += ["--to", target, "--partitions", str(partitions)]
    for assignment in assignments:
        command += ["--set", assignment]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=END_SECONDS * 2, check=False
    )


def test_an_index_moves_to_more_shards(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given an index on two shards; when it is copied to five, then copies of documents that the
    old workers saw are found by the new ones, and every raw record has exactly one output.

    While a worker runs it is refused, and so is a second time.
    """
    documents = _documents(seed=5, count=500)
    target = kafka_broker.unique("resharded")
    with Stream(kafka_broker, tmp_path, raw_partitions=3, shards=2) as stream:
        worker = stream.started()
        stream.send(documents[:250])
        stream.settle()
        running = _reshard(stream, target, 5)
        worker.stop_gently()
        done = _reshard(stream, target, 5)
        again = _reshard(stream, target, 5)
        stream.send(documents[250:])
        successor = stream.worker(state="new", flags=("--application-id", target))
        successor.start()
        successor.await_ready()
        outputs = stream.settle()
        successor.stop_gently()
        outputs.read_to_ends()

        assert running.returncode == 1
        assert "1 workers of" in running.stderr
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["partitions"] == 5
        assert again.returncode == 1
        assert "exists already" in again.stderr
        assert stream.judge.conserved(stream.sent, outputs) == 0
        stream.judge.separated(stream.sent, outputs)
        assert stream.judge.grounded(stream.sent, outputs) > 0
        before = set(list(stream.sent)[:250])
        assert any(
            source not in before and duplicate.original in before
            for source, duplicate in outputs.duplicates.items()
        ), "no copy of a document from before was met: the test shows nothing"
