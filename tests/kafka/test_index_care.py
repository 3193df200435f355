"""``firstseen index`` on a real Kafka: loads an index, and repairs lost, damaged or cut parts."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from confluent_kafka import TopicPartition

from streams.errors import ExitCode
from streams.maintenance import Report
from streams.maintenance.index_transaction import IndexTransaction
from streams.maintenance.loading import LoadedRun, TopicSource
from streams.topics.admin import create, partitions_of
from streams.topics.consumer_group import group_members
from streams.topics.plans import topic_plans
from tests.kafka.stream_changes import admin_of, delete_topic, send_and_settle
from tests.kafka.test_forgetting import U, document, send_and_check, tombstone
from tests.kafka.test_shard_recovery import check_copies_are_named, copy_of, shard_directories
from tests.kafka.test_stream import generated
from tests.rigs.brokers.broker import Broker
from tests.rigs.waiting import await_that
from tests.rigs.workers.stream_harness import Stream
from tests.rigs.workers.stream_outputs import Raw
from tests.unit.cli.running import Run, clean_environment, run_here

DOCUMENTS = 120


def index(stream: Stream, *arguments: str, code: int = 0) -> Run:
    """Run ``firstseen index`` with the settings of a stream; it must end with ``code``."""
    options = stream.worker()._options
    stream.workers.pop()  # the worker is not started
    with patch.dict(os.environ, clean_environment(), clear=True):
        done = run_here("index", *arguments, *options)
    assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def answer(stream: Stream, *arguments: str, code: int = 0) -> dict[str, Any]:
    """Run a command with ``--json``, and return its object."""
    found = json.loads(index(stream, *arguments, "--json", code=code).stdout)
    assert isinstance(found, dict)
    return found


def refusal(stream: Stream, *arguments: str) -> str:
    return index(stream, *arguments, code=1).stderr


def findings(stream: Stream, code: int = 0) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = answer(stream, "verify", code=code)["findings"]
    return found


def lines_of(documents: list[Raw]) -> bytes:
    """Return documents as the lines of a file."""
    return b"".join((raw.value or b"").replace(b"\n", b" ") + b"\n" for raw in documents)


def readable(documents: list[Raw]) -> list[Raw]:
    """Return the records that are documents; the generator also makes others."""
    found = []
    for raw in documents:
        try:
            fields = json.loads(raw.value or b"")
        except ValueError:
            continue
        if isinstance(fields, dict) and isinstance(fields.get("text"), str) and "id" in fields:
            found.append(raw)
    return found


def long_text(seed: int) -> str:
    """Return a text that is near no other one."""
    return "".join(map(chr, Random(seed).choices(range(0x4E00, 0x9FA5), k=100)))


def flip_a_bit(directory: Path) -> Path:
    """Flip one bit in the middle of the largest data file; return the file."""
    largest = max(directory.glob("*.sst"), key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 3] ^= 0x10
    largest.write_bytes(content)
    return largest


def test_a_loaded_index_knows_its_documents(kafka_broker: Broker, tmp_path: Path) -> None:
    documents = readable(generated(seed=61, count=3 * DOCUMENTS))
    first, second = documents[:DOCUMENTS], documents[DOCUMENTS : 2 * DOCUMENTS]
    file, more = tmp_path / "first.jsonl", tmp_path / "second.jsonl.gz"
    file.write_bytes(lines_of(first))
    more.write_bytes(gzip.compress(lines_of(second)))
    with Stream(kafka_broker, tmp_path, raw_partitions=3) as stream:
        assert answer(stream, "load", str(file))["documents"] == len(first)
        assert "is not empty" in refusal(stream, "load", str(file))
        assert answer(stream, "load", str(more), "--add")["documents"] == len(second)

        worker = stream.started()
        places = stream.send([copy_of(raw, 1) for raw in (*first, *second)])
        outputs = send_and_settle(stream, documents[2 * DOCUMENTS :])
        for place in places:
            original = outputs.duplicates[place].original
            assert original.topic in {"first.jsonl", "second.jsonl.gz"}, stream.sent[place]
        assert outputs.uniques, "documents that were not loaded are new"
        assert findings(stream) == []  # beside the worker
        worker.stop_gently()
        found = answer(stream, "verify")
        assert (found["findings"], found["undecided"]) == ([], 0)
        stats = answer(stream, "stats")
        assert stats["documents"] == len(first) + len(second) + len(outputs.uniques)
        assert stats["buckets"] > stats["documents"]


def test_damage_is_named_and_a_checkpoint_that_is_whole_catches_up(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    documents = generated(seed=62, count=2 * DOCUMENTS)
    backup = tmp_path / "backup"
    with Stream(kafka_broker, tmp_path, raw_partitions=2) as stream:
        worker = stream.started()
        send_and_settle(stream, documents[:DOCUMENTS])
        made = answer(stream, "checkpoint", str(backup))["checkpoints"]
        assert {each["partition"] for each in made} == {0, 1}
        assert sum(each["documents"] for each in made) == len(stream.outputs.uniques)
        send_and_settle(stream, documents[DOCUMENTS:])
        assert "Only one process can use it at a time" in refusal(
            stream, "restore", str(backup), "--force"
        )
        worker.stop_gently()
        answer(stream, "checkpoint", str(tmp_path / "later"))

        damaged = flip_a_bit(shard_directories(stream)[1])
        said = findings(stream, code=1)
        assert [(each["where"], each["shard"]) for each in said] == [("disk", 1)]
        assert damaged.name in said[0]["what"]

        assert "--force" in refusal(stream, "restore", str(backup), "--shard", "1")
        answer(stream, "restore", str(backup), "--shard", "1", "--force")
        found = answer(stream, "verify")
        assert found["findings"] == []
        assert found["shards"][1]["records_behind"] > 0

        worker = stream.started()
        check_copies_are_named(stream, 1)
        worker.stop_gently()
        damaged = flip_a_bit(backup / "shard-0")
        assert damaged.name in refusal(stream, "restore", str(backup), "--force")
        assert findings(stream) == []
        stream.judge_all()


def test_a_lost_log_begins_again(kafka_broker: Broker, tmp_path: Path) -> None:
    """It begins after the offset of every entry; no document is lost or repeated."""
    documents = generated(seed=64, count=2 * DOCUMENTS)
    with Stream(kafka_broker, tmp_path, raw_partitions=2) as stream:
        worker = stream.started()
        send_and_settle(stream, documents[:DOCUMENTS])
        assert "stop the workers" in refusal(stream, "new-log")
        worker.stop_gently()
        assert "has everything that the shards need" in refusal(stream, "new-log")

        log, admin = stream.settings.topics.log, admin_of(kafka_broker)
        delete_topic(stream, log)
        await_that(lambda: not partitions_of(admin, [log]))
        create(admin, topic_plans(stream.settings, 1, stream.raw_partitions))
        stream.send(documents[DOCUMENTS:])
        assert {each["where"] for each in findings(stream, code=1)} == {"log"}
        begun = answer(stream, "new-log")
        assert begun["filled"] > 0
        assert begun["read_again"] >= DOCUMENTS

        worker = stream.started()
        stream.settle()
        check_copies_are_named(stream, 1)
        worker.stop_gently()
        assert findings(stream) == []
        stream.judge_all()


def test_a_cut_log_begins_again(kafka_broker: Broker, tmp_path: Path) -> None:
    """Documents that a killed worker had in flight are sent again."""
    documents = generated(seed=65, count=2 * DOCUMENTS)
    with Stream(kafka_broker, tmp_path, raw_partitions=2) as stream:
        worker = stream.started()
        send_and_settle(stream, documents[:DOCUMENTS])
        stream.send(documents[DOCUMENTS:])
        worker.kill()
        admin = admin_of(kafka_broker)
        everything = TopicPartition(stream.settings.topics.log, 0, -1)
        for future in admin.delete_records([everything]).values():
            future.result(30)
        await_that(lambda: not group_members(admin, stream.settings.application_id))
        assert answer(stream, "new-log")["filled"] == 0

        worker = stream.started()
        stream.settle()
        check_copies_are_named(stream, 1)
        worker.stop_gently()
        assert findings(stream) == []
        stream.judge.conserved(stream.sent, stream.outputs)
        stream.judge.separated(stream.sent, stream.outputs)


def test_entries_stay_for_their_window_when_a_log_begins_again(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    """The progress of a shard does not have the watermark of its last entries."""
    options = ["index.window=30d", "index.lateness=1d"]
    first, last, other = map(long_text, range(3))
    with Stream(kafka_broker, tmp_path, raw_partitions=2, options=options) as stream:
        worker = stream.started()
        send_and_check(stream, (document("first", first), U))
        send_and_check(stream, (document("last", last, days=40), U))
        worker.stop_gently()
        answer(stream, "new-log", "--force")
        worker = stream.started()
        send_and_check(stream, (document("other", other, days=45), U))
        send_and_check(stream, (document("copy", last, days=46), "last"))
        send_and_check(stream, (document("again", first, days=46), U))
        worker.stop_gently()
        assert findings(stream) == []


def test_an_index_moves_to_other_settings_and_fewer_partitions(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    file = tmp_path / "seen.jsonl.gz"
    with Stream(kafka_broker, tmp_path, raw_partitions=3) as stream:
        worker = stream.started()
        send_and_settle(stream, generated(seed=66, count=DOCUMENTS))
        exported = answer(stream, "export", str(file))  # beside the worker
        worker.stop_gently()
        uniques = dict(stream.outputs.uniques)
        assert exported["documents"] == len(uniques)
        sent, unique_topic = dict(stream.sent), stream.settings.topics.unique
    for number, way in enumerate(([str(file)], ["--topic", unique_topic])):
        directory = tmp_path / f"second-{number}"
        directory.mkdir()
        other = Stream(kafka_broker, directory, raw_partitions=1, options=["index.distance=20"])
        with other as second:
            assert answer(second, "load", *way)["documents"] == len(uniques)
            worker = second.started()
            places = second.send([copy_of(sent[source], 7) for source in uniques])
            duplicates = second.settle().duplicates
            assert [duplicates[place].original for place in places] == list(uniques)
            worker.stop_gently()
            assert findings(second) == []


def test_what_was_removed_on_a_topic_is_not_loaded(kafka_broker: Broker, tmp_path: Path) -> None:
    options = ["index.same_id=replace"]
    texts = {name: long_text(seed) for seed, name in enumerate(("old", "new", "gone", "same"))}
    with Stream(kafka_broker, tmp_path, raw_partitions=1, options=options) as stream:
        worker = stream.started()
        stream.send(
            [
                document("replaced", texts["old"]),
                document("replaced", texts["new"]),
                document("deleted", texts["gone"]),
                tombstone("deleted"),
                document("same", texts["same"]),
                document("again", texts["gone"]),
                tombstone("again"),
                document("again", texts["gone"]),
            ]
        )
        stream.settle()
        worker.stop_gently()
        unique_topic = stream.settings.topics.unique
    directory = tmp_path / "second"
    directory.mkdir()
    with Stream(kafka_broker, directory, raw_partitions=1, options=options) as second:
        loaded = answer(second, "load", "--topic", unique_topic)
        assert (loaded["documents"], loaded["refused"]) == (3, {"tombstone": 2, "removed": 3})
        second.started()
        send_and_check(
            second,
            (document("a", texts["old"]), U),
            (document("b", texts["new"]), "replaced"),
            (document("c", texts["gone"]), "again"),
            (document("d", texts["same"]), "same"),
        )


def test_duplicates_on_a_tagged_topic_are_not_loaded(kafka_broker: Broker, tmp_path: Path) -> None:
    text, other = long_text(0), long_text(1)
    with Stream(kafka_broker, tmp_path, raw_partitions=1, options=["mode=tag"]) as stream:
        worker = stream.started()
        stream.send([document("first", text), document("copy", text), document("other", other)])
        stream.send([tombstone("first")])
        stream.send([document("last", other)])
        stream.settle()
        worker.stop_gently()
        tagged = stream.settings.topics.tagged
    directory = tmp_path / "second"
    directory.mkdir()
    with Stream(kafka_broker, directory, raw_partitions=1) as second:
        loaded = answer(second, "load", "--topic", tagged)
        assert loaded["refused"] == {"removed": 1, "duplicate": 2, "tombstone": 1}
        second.started()
        send_and_check(second, (document("a", text), U), (document("b", other), "other"))


def test_documents_that_are_added_later_stay_for_their_window(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    options = ["index.window=30d", "index.lateness=1d"]
    texts = [long_text(day) for day in range(35)]
    file = tmp_path / "later.jsonl"
    file.write_bytes(
        lines_of([document(f"day-{day}", texts[day], days=day) for day in range(1, 35)])
    )
    with Stream(kafka_broker, tmp_path, raw_partitions=2, options=options) as stream:
        worker = stream.started()
        send_and_check(stream, (document("day-0", texts[0]), U))
        worker.stop_gently()
        answer(stream, "load", str(file), "--add")
        assert findings(stream) == []
        for day, original in ((36, "day-34"), (37, "day-20"), (38, "day-34")):
            worker = stream.started()  # from what the last one committed
            text = texts[int(original.removeprefix("day-"))]
            send_and_check(stream, (document(f"copy-{day}", text, days=day), original))
            worker.stop_gently()
        stream.started()
        send_and_check(stream, (document("copy-39", texts[2], days=39), U))


def test_changes_of_an_index_are_refused_beside_workers(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    file = tmp_path / "more.jsonl"
    documents = readable(generated(seed=67, count=DOCUMENTS))
    file.write_bytes(lines_of(documents))
    with Stream(kafka_broker, tmp_path, raw_partitions=1) as stream:
        worker = stream.started()
        send_and_settle(stream, documents[:20])
        for command in (["load", str(file), "--add"], ["drop", "--everything", "--yes"]):
            assert "stop the workers" in refusal(stream, *command)
        assert "Only one process can use it at a time" in refusal(stream, "drop", "--yes")
        other = ["load", str(file), "--begin", stream.settings.application_id]
        with Stream(kafka_broker, tmp_path, raw_partitions=1) as second:
            second.assign(f"topics.raw={stream.settings.topics.raw}")
            why = refusal(second, *other)
            assert f"stop the workers of {stream.settings.application_id}" in why
            worker.stop_gently()
            assert answer(second, *other)["begins"] == {"0": 20}

        answer(stream, "drop", "--yes")
        assert not list((tmp_path / "state" / stream.settings.application_id).glob("shard-*"))
        dropped = answer(stream, "drop", "--everything", "--yes")
        assert stream.settings.topics.changelog in dropped["topics"]
        loaded = answer(stream, "load", str(file), "--begin", "latest")
        assert loaded["begins"] == {"0": 20}


def test_a_killed_load_does_not_hold_up_workers(kafka_broker: Broker, tmp_path: Path) -> None:
    """Its transaction would hide later commits from new owners of a shard for 15 minutes."""
    file = tmp_path / "more.jsonl"
    documents = readable(generated(seed=68, count=3 * DOCUMENTS))
    file.write_bytes(lines_of(documents[2 * DOCUMENTS :]))

    def killed(self: IndexTransaction, *_: object) -> None:
        self._flush()
        raise KeyboardInterrupt

    with Stream(kafka_broker, tmp_path, raw_partitions=2) as stream:
        with (
            patch.object(IndexTransaction, "commit", killed),
            patch.object(IndexTransaction, "__exit__", lambda *_: None),
        ):
            index(stream, "load", str(file), code=ExitCode.INTERRUPTED)
        worker = stream.started()
        send_and_settle(stream, documents[:DOCUMENTS])
        worker.stop_gently()
        stream.started(state="another")
        send_and_settle(stream, documents[DOCUMENTS : 2 * DOCUMENTS])
        check_copies_are_named(stream, 1)
        stream.judge_all()


def test_a_load_notes_that_the_application_it_continues_has_run(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    """Documents that it put out meanwhile would be loaded, and read again as duplicates."""
    documents = readable(generated(seed=69, count=DOCUMENTS))
    read = TopicSource.runs
    with Stream(kafka_broker, tmp_path, raw_partitions=2) as stream:
        worker = stream.started()
        send_and_settle(stream, documents[:40])
        worker.stop_gently()
        stream.send(documents[40:])
        topics, application = stream.settings.topics, stream.settings.application_id

        def late(self: TopicSource, report: Report) -> Iterator[LoadedRun]:
            worker = stream.started()
            stream.settle()
            worker.stop_gently()
            return read(self, report)

        with Stream(kafka_broker, tmp_path, raw_partitions=2) as second:
            second.assign(f"topics.raw={topics.raw}")
            command = ["load", "--topic", topics.unique, "--begin", application]
            with patch.object(TopicSource, "runs", late):
                assert f"workers of {application} have run since" in refusal(second, *command)
            loaded = answer(second, *command)
            assert loaded["documents"] == len(stream.outputs.uniques)
            assert sum(loaded["begins"].values()) == len(stream.sent)
