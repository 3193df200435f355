"""One worker with one shard and its log, for worked examples of verdicts.

Documents have names for ids. Two documents are near if their texts are equal or differ only in the
last character; other texts are far from each other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

from simhash_core.index.look_up import Nearness
from simhash_core.log.local_decider import MemoryEntries
from simhash_core.log.participant import BundleLimit, Participant
from simhash_core.log.records import NO_CONTROL, Control, LogRecord, Progress
from simhash_core.log.shard_stream import Deleted, Output, RawBatch, Verdict
from tests.unit.core.log.made_to_order import CHAIN, Made, columns_of

LIMIT = BundleLimit(documents=1_000, size=1 << 20)


def doc(name: str, text: str = "", time_ms: int = 0, scope: str = "") -> Made:
    """Return a document; without ``text`` it is a delete of ``name``."""
    digest = blake2b(text.encode(), digest_size=16).digest()
    whole = int.from_bytes(blake2b(text[:-1].encode(), digest_size=8).digest())
    near = (whole ^ ord(text[-1]) % 8).to_bytes(8) if text else b""
    return Made(near, digest, b"", name.encode(), time_ms, scope, is_delete=not text)


def docs(text: str) -> list[Made]:
    """Return documents and deletes, written as ``name=text/scope@time_ms`` and ``-name``."""
    pattern = re.compile(r"-?(\w+)(?:=(\w+))?(?:/(\w+))?(?:@(\d+))?")
    return [
        doc(name, what, int(time_ms or 0), scope)
        for name, what, scope, time_ms in pattern.findall(text)
    ]


class Story(NamedTuple):
    """Packets and outputs, as ``documents: verdicts``; ``left`` counts the entries at the end."""

    nearness: Nearness
    steps: Sequence[str]
    left: int
    now_ms: int = 1 << 40

    def check(self) -> None:
        worker = OneWorker(self.nearness, now_ms=self.now_ms)
        for step in self.steps:
            if step == "restart":
                worker.restart()
                continue
            documents, said = step.split(": ")
            assert worker.says(*docs(documents)) == said.split(", "), step
        assert len(worker.store) == self.left

    def in_one_packet(self) -> Story:
        parts = [step.split(": ") for step in self.steps if step != "restart"]
        documents, said = zip(*parts, strict=True)
        return self._replace(steps=[f"{' '.join(documents)}: {', '.join(said)}"])


def said_of(output: Output[Made]) -> str:
    name, verdict = output.record.name.decode(), output.verdict
    if isinstance(verdict, Deleted):
        return f"{name} tombstone" if verdict.has_output else f"{name} nothing"
    assert isinstance(verdict, Verdict)
    said = "unique" if verdict.match is None else f"like {verdict.match.original_id}"
    return f"{name} {said}" + (" replaced" if verdict.replaced else "")


class OneWorker:
    def __init__(self, nearness: Nearness, *, now_ms: int = 1 << 40) -> None:
        """``now_ms`` is the log's time of all records."""
        self.participant: Participant[Made] = Participant("worker", nearness)
        self.store = MemoryEntries()
        self.log: list[LogRecord] = []
        self.now_ms = now_ms
        self._read = 0
        self.participant.add_shard(Progress(CHAIN, 0, 0, NO_CONTROL), self.store)
        self.participant.begin(0)
        self.expired_before = 0

    def says(self, *documents: Made) -> list[str]:
        """Read raw records, all of one packet; return the outputs."""
        first = self._read
        self._read += len(documents)
        columns = columns_of(documents, first)
        offsets = range(first, self._read)
        shard = self.participant.shards[0]
        shard.stream.add(RawBatch(documents, offsets, columns, self._read - 1))
        said: list[str] = []
        for _ in range(4):
            said += self._cycle()
        return said

    def restart(self) -> None:
        """Start a new session from the last commit."""
        self.participant.begin(len(self.log))
        for offset in range(self.participant.replica.position, len(self.log)):
            self.participant.read(offset, self.log[offset], self.now_ms)

    def _cycle(self) -> list[str]:
        bundle = self.participant.bundle(LIMIT)
        if bundle is not None:
            self._append(bundle)
        report = self.participant.report(100)
        if report is not None:
            self.participant.take_report(report)
        control = self.participant.control(100)
        if control is not None:
            self._append(control)
        said: list[str] = []
        for ready in self.participant.ready(100, positions=True):
            said += map(said_of, ready.ready.outputs)
            for new in ready.ready.entries:
                self.store.add(new)
            self.store.remove(ready.ready.removed)
            self.expired_before = ready.ready.expired_before
            self.participant.committed(ready)
        return said

    def _append(self, record: LogRecord) -> None:
        self.log.append(record)
        offset = len(self.log) - 1
        self.participant.read(offset, record, self.now_ms)
        if isinstance(record, Control):
            self.participant.control_appended(offset, record.leader)
