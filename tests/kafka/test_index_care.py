"""``firstseen index`` on a real Kafka: what is loaded, lost, damaged, cut, and put right again."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition

from simhash_core.documents import SourcePosition
from streams.kafka.clients import AdminClient
from streams.kafka.errors import becomes_true
from streams.topics.admin import create, partitions_of
from streams.topics.consumer_group import group_members
from streams.topics.plans import topic_plans
from tests.kafka.test_shard_recovery import check_copies_are_named, copy_of, shard_directories
from tests.kafka.test_stream import generated
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.stream_harness import Stream
from tests.rigs.workers.stream_outputs import Raw
from tests.unit.cli.running import clean_environment

DOCUMENTS = 120
COMMAND_SECONDS = 120.0


def index(
    stream: Stream, *arguments: str, state: str = "state", code: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run ``firstseen index`` with the settings of a stream; it must end with ``code``."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "streams.cli.main", "index", *arguments),
            *options_of(stream, state),
        ],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def options_of(stream: Stream, state: str) -> list[str]:
    """The settings of a stream as options of a command."""
    options = list(stream.worker(state=state)._options)
    stream.workers.pop()  # it is not started
    return options


def create_missing_topics(stream: Stream) -> None:
    """Make the topics that are not there, as ``firstseen topics create`` does."""
    create(admin_of(stream), topic_plans(stream.settings, 1, stream.raw_partitions))


def admin_of(stream: Stream) -> AdminClient:
    """A client for the admin of a stream."""
    return AdminClient({"bootstrap.servers": stream.broker.bootstrap_servers})


def await_true(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    assert becomes_true(condition, COMMAND_SECONDS, 0.2)


def answer(stream: Stream, *arguments: str, state: str = "state", code: int = 0) -> dict[str, Any]:
    """Run a command with ``--json``, and return what it answers."""
    found = json.loads(index(stream, *arguments, "--json", state=state, code=code).stdout)
    assert isinstance(found, dict)
    return found


def put_out(stream: Stream, documents: list[Raw]) -> None:
    """Send documents, and wait until all are put out."""
    stream.send(documents)
    stream.settle()


def lines_of(documents: list[Raw]) -> bytes:
    """Documents as the lines of a file."""
    return b"".join((raw.value or b"").replace(b"\n", b" ") + b"\n" for raw in documents)


def readable(documents: list[Raw]) -> list[Raw]:
    """Those that are documents: the generator has some that are not."""
    found = []
    for raw in documents:
        try:
            fields = json.loads(raw.value or b"")
        except ValueError:
            continue
        if isinstance(fields, dict) and isinstance(fields.get("text"), str) and "id" in fields:
            found.append(raw)
    return found


def flip_a_bit(directory: Path) -> Path:
    """Change one bit in the middle of the largest file of data; return the file."""
    largest = max(directory.glob("*.sst"), key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 3] ^= 0x10
    largest.write_bytes(content)
    return largest


def test_a_loaded_index_knows_its_documents(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given a file of documents that is loaded into a new index, and then more with --add; when a
    worker runs on it; then copies of all are duplicates that name the line of the file, other
    documents are unique, and disk, changelog and log agree.
    """
    documents = readable(generated(seed=61, count=3 * DOCUMENTS))
    first, second = documents[:DOCUMENTS], documents[DOCUMENTS : 2 * DOCUMENTS]
    file, more = tmp_path / "first.jsonl", tmp_path / "second.jsonl.gz"
    file.write_bytes(lines_of(first))
    more.write_bytes(gzip.compress(lines_of(second)))
    with Stream(kafka_broker, tmp_path, raw_partitions=3) as stream:
        loaded = answer(stream, "load", str(file))
        assert loaded["documents"] == len(first)
        refused = index(stream, "load", str(file), code=1)
        assert "is not empty" in refused.stderr
        assert answer(stream, "load", str(more), "--add")["documents"] == len(second)

        worker = stream.started()
        copies = [copy_of(raw, 1) for raw in (*first, *second)]
        places = stream.send(copies)
        others = documents[2 * DOCUMENTS :]
        stream.send(others)
        outputs = stream.settle()
        for number, place in enumerate(places):
            original = outputs.duplicates[place].original
            assert original.topic in {"first.jsonl", "second.jsonl.gz"}, copies[number]
        assert outputs.uniques, "documents that were not loaded are new"
        assert answer(stream, "verify")["findings"] == []  # beside the worker
        worker.stop_gently()
        found = answer(stream, "verify")
        assert found["findings"] == []
        assert found["undecided"] == 0
        stats = answer(stream, "stats")
        assert stats["documents"] == len(first) + len(second) + len(outputs.uniques)
        assert stats["buckets"] > stats["documents"]


def test_damage_is_named_and_a_checkpoint_catches_up(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given a checkpoint of an index whose worker runs, and documents that came after it; when a
    bit on the disk is flipped; then ``verify`` names the file, the checkpoint can be put back, and
    a worker on it knows all documents, those of after the checkpoint too.
    """
    documents = generated(seed=62, count=2 * DOCUMENTS)
    backup = tmp_path / "backup"
    with Stream(kafka_broker, tmp_path, raw_partitions=2) as stream:
        worker = stream.started()
        put_out(stream, documents[:DOCUMENTS])
        made = answer(stream, "checkpoint", str(backup))["checkpoints"]
        assert {each["partition"] for each in made} == {0, 1}
        assert sum(each["documents"] for each in made) == len(stream.outputs.uniques)
        put_out(stream, documents[DOCUMENTS:])
        refused = index(stream, "restore", str(backup), "--force", code=1)
        assert "Only one process at a time" in refused.stderr
        worker.stop_gently()
        answer(stream, "checkpoint", str(tmp_path / "later"))

        damaged = flip_a_bit(shard_directories(stream)[1])
        said = answer(stream, "verify", code=1)["findings"]
        assert [(each["where"], each["shard"]) for each in said] == [("disk", 1)]
        assert damaged.name in said[0]["what"]

        refused = index(stream, "restore", str(backup), "--shard", "1", code=1)
        assert "--force" in refused.stderr
        answer(stream, "restore", str(backup), "--shard", "1", "--force")
        found = answer(stream, "verify")
        assert found["findings"] == []
        assert found["shards"][1]["records_behind"] > 0

        worker = stream.started()
        check_copies_are_named(stream, 1)
        worker.stop_gently()
        assert answer(stream, "verify")["findings"] == []
        stream.judge.conserved(stream.sent, stream.outputs)
        stream.judge.separated(stream.sent, stream.outputs)
        stream.judge.grounded(stream.sent, stream.outputs)


def test_a_damaged_checkpoint_is_refused(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given a checkpoint of which a bit was flipped; when it is to be put back; then the file is
    named, and the store that is there stays.
    """
    backup = tmp_path / "backup"
    with Stream(kafka_broker, tmp_path, raw_partitions=1) as stream:
        worker = stream.started()
        put_out(stream, generated(seed=63, count=DOCUMENTS))
        worker.stop_gently()
        answer(stream, "checkpoint", str(backup))
        damaged = flip_a_bit(backup / "shard-0")
        refused = index(stream, "restore", str(backup), "--force", code=1)
        assert damaged.name in refused.stderr
        assert answer(stream, "verify")["findings"] == []


def test_a_lost_log_begins_again(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given an index whose log topic was deleted and created again, empty; when a new log is begun;
    then it is behind the place of every entry, workers go on, and no document is lost or twice.
    """
    documents = generated(seed=64, count=2 * DOCUMENTS)
    with Stream(kafka_broker, tmp_path, raw_partitions=2) as stream:
        worker = stream.started()
        put_out(stream, documents[:DOCUMENTS])
        refused = index(stream, "new-log", code=1)
        assert "stop the workers" in refused.stderr
        worker.stop_gently()
        refused = index(stream, "new-log", code=1)
        assert "has everything that the shards need" in refused.stderr

        log = stream.settings.topics.log
        admin = admin_of(stream)
        admin.delete_topics([log])[log].result(30)
        await_true(lambda: not partitions_of(admin, [log]))
        create_missing_topics(stream)
        stream.send(documents[DOCUMENTS:])
        found = answer(stream, "verify", code=1)["findings"]
        assert {each["where"] for each in found} == {"log"}
        begun = answer(stream, "new-log")
        assert begun["filled"] > 0
        assert begun["read_again"] >= DOCUMENTS

        worker = stream.started()
        stream.settle()
        check_copies_are_named(stream, 1)
        worker.stop_gently()
        assert answer(stream, "verify")["findings"] == []
        stream.judge.conserved(stream.sent, stream.outputs)
        stream.judge.separated(stream.sent, stream.outputs)
        stream.judge.grounded(stream.sent, stream.outputs)


def test_a_cut_log_begins_again(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given an index whose log was cut at its end, with a worker that was killed; when a new log is
    begun; then what was on its way is sent again, and no document is lost or twice.
    """
    documents = generated(seed=65, count=2 * DOCUMENTS)
    with Stream(kafka_broker, tmp_path, raw_partitions=2) as stream:
        worker = stream.started()
        put_out(stream, documents[:DOCUMENTS])
        stream.send(documents[DOCUMENTS:])
        worker.kill()
        admin = admin_of(stream)
        everything = TopicPartition(stream.settings.topics.log, 0, -1)
        for future in admin.delete_records([everything]).values():
            future.result(30)
        await_true(lambda: not group_members(admin, stream.settings.application_id))
        begun = answer(stream, "new-log")
        assert begun["filled"] == 0

        worker = stream.started()
        stream.settle()
        check_copies_are_named(stream, 1)
        worker.stop_gently()
        assert answer(stream, "verify")["findings"] == []
        stream.judge.conserved(stream.sent, stream.outputs)
        stream.judge.separated(stream.sent, stream.outputs)


def test_an_index_moves_to_other_settings_and_fewer_partitions(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    """Given an index on three partitions; when its export, or its topic of unique documents, is
    loaded into an index on one partition with another distance; then a worker there knows each
    document by the id and the source that it had.
    """
    file = tmp_path / "seen.jsonl.gz"
    with Stream(kafka_broker, tmp_path, raw_partitions=3) as stream:
        worker = stream.started()
        put_out(stream, generated(seed=66, count=DOCUMENTS))
        exported = answer(stream, "export", str(file))  # beside the worker
        worker.stop_gently()
        uniques = dict(stream.outputs.uniques)
        assert exported["documents"] == len(uniques)
        sent, unique_topic = dict(stream.sent), stream.settings.topics.unique
    ways = [str(file)], ["--topic", unique_topic]
    for number, way in enumerate(ways):
        directory = tmp_path / f"second-{number}"
        directory.mkdir()
        other = Stream(kafka_broker, directory, raw_partitions=1, options=["index.distance=20"])
        with other as second:
            assert answer(second, "load", *way)["documents"] == len(uniques)
            worker = second.started()
            originals: list[SourcePosition] = list(uniques)
            places = second.send([copy_of(sent[source], 7) for source in originals])
            duplicates = second.settle().duplicates
            for place, original in zip(places, originals, strict=True):
                assert duplicates[place].original == original
            worker.stop_gently()
            assert answer(second, "verify")["findings"] == []


def test_changes_are_refused_beside_workers(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given a worker that runs; when a command would change its index; then it is refused, and says
    who is there; when the worker has stopped, the index can be emptied, and begins from nothing.
    """
    file = tmp_path / "more.jsonl"
    documents = readable(generated(seed=67, count=DOCUMENTS))
    file.write_bytes(lines_of(documents))
    with Stream(kafka_broker, tmp_path, raw_partitions=1) as stream:
        worker = stream.started()
        put_out(stream, documents[:20])
        for command in (["load", str(file), "--add"], ["drop", "--everything", "--yes"]):
            refused = index(stream, *command, code=1)
            assert "stop the workers" in refused.stderr
        refused = index(stream, "drop", "--yes", code=1)
        assert "Only one process at a time" in refused.stderr
        worker.stop_gently()

        answer(stream, "drop", "--yes")
        assert not list(state_of(stream).glob("shard-*"))
        dropped = answer(stream, "drop", "--everything", "--yes")
        assert stream.settings.topics.changelog in dropped["topics"]
        loaded = answer(stream, "load", str(file), "--begin", "latest")
        assert loaded["begins"] == {"0": 20}


def state_of(stream: Stream) -> Path:
    """The directory of the stores of a stream."""
    return stream.directory / "state" / stream.settings.application_id
