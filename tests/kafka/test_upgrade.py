"""Three workers are replaced under load, one by one, by those of the next release, and back.

A worker with the fault "older" reads only the format versions of the previous release.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from simhash_core.log.records import Control
from simhash_core.log.versions import NEWEST, OLDEST
from simhash_core.text.fingerprinter import Fingerprinter
from streams.errors import ExitCode
from streams.worker.log_codec import LogCodec, version_of
from tests.kafka.stream_changes import send_and_settle, stop_gently
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.short_documents import keyed_documents
from tests.rigs.workers.stream_harness import Stream, Worker
from tests.rigs.workers.worker_metrics import await_shared

PARTITIONS = 6
IN_FORCE = f"format version {NEWEST} is in force"


class Group:
    """Three workers, and the documents that are sent before and after each change."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.workers = [stream.worker(state=f"machine-{number}") for number in range(3)]
        self._seeds = count(700)

    def send(self) -> None:
        self.stream.send(keyed_documents(next(self._seeds), 300))

    def start(self, worker: Worker, *, older: bool) -> None:
        worker.start("older" if older else "")
        self.send()
        worker.await_ready()
        self.send()

    def replace(self, number: int, *, older: bool = False, kills: bool = False) -> None:
        worker = self.workers[number]
        self.send()
        if kills:
            worker.kill()
        else:
            worker.stop_gently()
        self.start(worker, older=older)

    @property
    def is_raised(self) -> bool:
        return any(IN_FORCE in worker.log_text() for worker in self.workers)


def log_of(stream: Stream) -> list[tuple[int, bool]]:
    """Return each log record's version, and whether the record raises the version in force."""
    codec = LogCodec(Fingerprinter(stream.settings.index_profile()).identity)
    log, broker = stream.settings.topics.log, stream.broker
    records, in_force = [], OLDEST
    for message in broker.read_partition(log, broker.watermarks(log)[1]):
        value = message.value() or b""
        record = codec.decode(value, "the log")
        raises = isinstance(record, Control) and record.version > in_force
        in_force = NEWEST if raises else in_force
        records.append((version_of(value), raises))
    return records


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_three_workers_are_upgraded_one_by_one(kafka_broker: Broker, tmp_path: Path) -> None:
    with Stream(kafka_broker, tmp_path, raw_partitions=PARTITIONS) as stream:
        group = Group(stream)
        for worker in group.workers:
            worker.start("older")
        await_shared(group.workers, PARTITIONS)
        group.send()
        group.replace(0)
        group.replace(1, kills=True)
        group.replace(0, kills=True)
        group.replace(1, older=True)
        send_and_settle(stream, keyed_documents(600, 300))
        assert not group.is_raised
        assert {version for version, _ in log_of(stream)} == {OLDEST}

        group.replace(1)
        group.replace(2, kills=True)
        for worker in group.workers:
            worker.await_log(IN_FORCE)
        group.replace(0, kills=True)
        stream.judge_all()
        versions = log_of(stream)
        raises = [at for at, (_, is_raise) in enumerate(versions) if is_raise]
        assert len(raises) == 1
        assert {version for version, _ in versions[: raises[0] + 1]} == {OLDEST}
        assert versions[-1][0] == NEWEST

        older = stream.worker(state="machine-3")
        older.start("older")
        assert older.await_end() == ExitCode.CONFIGURATION
        said = older.log_text().splitlines()[-1]
        for part in (f"has format version {NEWEST}", f"reads {OLDEST} to {OLDEST}", "Upgrade"):
            assert part in said
        group.send()
        stream.judge_all()
        stop_gently(group.workers)
