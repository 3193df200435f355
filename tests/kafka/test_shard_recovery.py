"""The state of the shards between runs: deleted, damaged, or on another machine's disk."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from streams.errors import ExitCode
from streams.kafka.clients import AdminClient
from streams.topics.admin import create
from streams.topics.plans import topic_plans
from tests.kafka.test_stream import generated
from tests.rigs.brokers.broker import Broker
from tests.rigs.waiting import await_that
from tests.rigs.workers.stream_harness import END_SECONDS, Stream
from tests.rigs.workers.stream_outputs import Raw

DOCUMENTS = 120


def shard_directories(stream: Stream) -> list[Path]:
    """Where the shards of the stream keep their state, in order."""
    found = sorted((stream.directory / "state" / stream.settings.application_id).glob("shard-*"))
    assert len(found) == stream.raw_partitions
    return found


def copy_of(raw: Raw, number: int) -> Raw:
    """The same document under another id and key."""
    fields = json.loads(raw.value or b"")
    fields["id"] = f"copy-{number}-of-{fields['id']}"
    return raw._replace(key=fields["id"].encode(), value=json.dumps(fields).encode())


def check_copies_are_named(stream: Stream, number: int) -> None:
    """Send a copy of each unique document: each must be told, and name the very same document."""
    uniques = dict(stream.outputs.uniques)
    copies = [copy_of(stream.sent[source], number) for source in uniques]
    places = stream.send(copies)
    duplicates = stream.settle().duplicates
    for source, original in zip(places, uniques, strict=True):
        assert source in duplicates, f"{source} is a copy of {original}, and was not told"
        assert (duplicates[source].original, duplicates[source].distance) == (original, 0)


def delete(shard: Path) -> None:
    """Take the whole directory away."""
    shutil.rmtree(shard)


def lose_the_newest_version(shard: Path) -> None:
    """Take away the file that says which state is the newest."""
    (shard / "CURRENT").unlink()


def overwrite_the_manifest(shard: Path) -> None:
    """Fill the list of files with what is none."""
    (manifest,) = shard.glob("MANIFEST-*")
    manifest.write_bytes(b"\x5a" * manifest.stat().st_size)


def cut_the_data(shard: Path) -> None:
    """Cut the end off the largest file of entries, as a loss of power can."""
    files = [*shard.glob("*.log"), *shard.glob("*.sst")]
    largest = max(files, key=lambda path: path.stat().st_size)
    assert largest.stat().st_size > 1_000
    with largest.open("r+b") as file:
        file.truncate(largest.stat().st_size // 2)


@pytest.mark.timeout(400)
def test_lost_and_damaged_state_is_rebuilt(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given exactly-once delivery, and four shards of which between two runs one has lost its
    directory, two have damaged files, and one has lost its last writes; when the worker starts;
    then it says what it rebuilds and why, and still knows every unique document of before.
    """
    harms: list[Callable[[Path], None]] = [
        delete,
        lose_the_newest_version,
        overwrite_the_manifest,
        cut_the_data,
    ]
    with Stream(kafka_broker, tmp_path, raw_partitions=4) as stream:
        worker = stream.started()
        stream.send(generated(seed=51, count=DOCUMENTS))
        stream.settle()
        worker.stop_gently()
        for harm, shard in zip(harms, shard_directories(stream), strict=True):
            harm(shard)

        worker = stream.started()
        check_copies_are_named(stream, 1)
        worker.stop_gently()

        said = worker.log_text()
        assert "shard 1 is rebuilt from its changelog" in said
        assert "CURRENT is missing" in said
        assert "shard 2 is rebuilt from its changelog" in said
        assert "Corruption" in said
        for number in range(4):
            assert f"shard {number} caught up with" in said
        stream.judge.conserved(stream.sent, stream.outputs)
        stream.judge.separated(stream.sent, stream.outputs)
        stream.judge.grounded(stream.sent, stream.outputs)


def test_another_machine_takes_over(broker: Broker, tmp_path: Path) -> None:
    """Given a worker that has stopped; when a worker with an empty state directory takes over, as
    on another machine, and then the first one again, whose state is behind by now; then each knows
    the documents of both.
    """
    with Stream(broker, tmp_path, raw_partitions=2) as stream:
        documents = generated(seed=52, count=DOCUMENTS)
        for run, machine in enumerate(["first", "second", "first"]):
            worker = stream.started(state=machine)
            stream.send(documents[run * 40 : (run + 1) * 40])
            stream.settle()
            check_copies_are_named(stream, run)
            worker.stop_gently()
        stream.judge.conserved(stream.sent, stream.outputs)
        stream.judge.separated(stream.sent, stream.outputs)


def test_the_state_of_another_changelog(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given the state of a worker, and another changelog of the same name, as on another cluster;
    when a worker starts; then it ends with 78 and names the directory.
    """
    with Stream(kafka_broker, tmp_path, raw_partitions=1) as stream:
        worker = stream.started()
        stream.send(generated(seed=53, count=20))
        stream.settle()
        worker.stop_gently()
        changelog = stream.settings.topics.changelog
        admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers})
        admin.delete_topics([changelog])[changelog].result(END_SECONDS)
        await_that(lambda: changelog not in admin.list_topics(timeout=END_SECONDS).topics)
        create(admin, topic_plans(stream.settings, 4, 1))

        worker.start()

        assert worker.await_end() == ExitCode.CONFIGURATION
        (shard,) = shard_directories(stream)
        assert str(shard) in worker.log_text()
