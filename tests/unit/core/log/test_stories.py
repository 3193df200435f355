"""Worked examples of verdicts with windows, deletes, replaced ids and scopes: ``stories.txt``.

A story has the settings of its index, then packets with their outputs as ``documents: verdicts``,
and how many entries are left. ``name=text/scope@time_ms`` is a document, ``-name`` a delete. Two
documents are near if their texts are equal or differ only in the last character; other texts are
far from each other.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from pathlib import Path

import pytest

from simhash_core.index.look_up import Nearness
from simhash_core.log.local_decider import MemoryEntries
from simhash_core.log.participant import BundleLimit, Participant
from simhash_core.log.records import NO_CONTROL, Control, LogRecord, Progress
from simhash_core.log.shard_stream import Deleted, Output, RawBatch, Verdict
from tests.unit.core.log.made_to_order import CHAIN, SCHEME, Made, columns_of

STORIES = dict(
    story.strip().split("\n", 1)
    for story in Path(__file__).with_name("stories.txt").read_text("utf-8").split("\n\n")
)


def documents_of(text: str) -> list[Made]:
    pattern = re.compile(r"-?(\w+)(?:=(\w+))?(?:/(\w+))?(?:@(\d+))?")
    documents = []
    for name, content, scope, time_ms in pattern.findall(text):
        digest = blake2b(content.encode(), digest_size=16).digest()
        whole = int.from_bytes(blake2b(content[:-1].encode(), digest_size=8).digest())
        near = (whole ^ ord(content[-1]) % 8).to_bytes(8) if content else b""
        made = Made(near, digest, b"", name.encode(), int(time_ms or 0), scope, not content)
        documents.append(made)
    return documents


def said_of(output: Output[Made]) -> str:
    name, verdict = output.record.name.decode(), output.verdict
    if isinstance(verdict, Deleted):
        return f"{name} tombstone" if verdict.has_output else f"{name} nothing"
    assert isinstance(verdict, Verdict)
    said = "unique" if verdict.match is None else f"like {verdict.match.original_id}"
    return f"{name} {said}" + (" replaced" if verdict.replaced else "")


class OneWorker:
    """One worker with one shard, and its log."""

    def __init__(
        self,
        window_ms: int | None = None,
        lateness_ms: int = 0,
        replaces: int = 0,
        now_ms: int = 1 << 40,
    ) -> None:
        """``now_ms`` is the log's time of all records."""
        nearness = Nearness(SCHEME, None, window_ms, lateness_ms, replaces=bool(replaces))
        self.participant: Participant[Made] = Participant("worker", nearness)
        self.store = MemoryEntries()
        self.log: list[LogRecord] = []
        self.now_ms = now_ms
        self._read = 0
        self.participant.add_shard(Progress(CHAIN, 0, 0, NO_CONTROL), self.store)
        self.participant.begin(0)

    def says(self, documents: list[Made]) -> list[str]:
        """Read raw records, all of one packet; return the outputs."""
        first = self._read
        self._read += len(documents)
        batch = RawBatch(
            documents, range(first, self._read), columns_of(documents, first), self._read - 1
        )
        self.participant.shards[0].stream.add(batch)
        return [said for _ in range(4) for said in self._cycle()]

    def restart(self) -> None:
        """Start a new session from the last commit."""
        self.participant.begin(len(self.log))
        for offset in range(self.participant.replica.position, len(self.log)):
            self.participant.read(offset, self.log[offset], self.now_ms)

    def _cycle(self) -> list[str]:
        self._append(self.participant.bundle(BundleLimit(documents=1_000, size=1 << 20)))
        report = self.participant.report(100)
        if report is not None:
            self.participant.take_report(report)
        self._append(self.participant.control(100))
        said: list[str] = []
        for ready in self.participant.ready(100, positions=True):
            said += map(said_of, ready.ready.outputs)
            for new in ready.ready.entries:
                self.store.add(new)
            self.store.remove(ready.ready.removed)
            self.participant.committed(ready)
        return said

    def _append(self, record: LogRecord | None) -> None:
        if record is None:
            return
        self.log.append(record)
        offset = len(self.log) - 1
        self.participant.read(offset, record, self.now_ms)
        if isinstance(record, Control):
            self.participant.control_appended(offset, record.leader)


@pytest.mark.parametrize("name", STORIES)
def test_a_story_ends_as_it_says(name: str) -> None:
    index, *steps, left = (line.strip() for line in STORIES[name].splitlines())
    settings = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", index)}
    tellings = [steps]
    if "in one packet" in left:
        parts = [step.split(": ") for step in steps if step != "restart"]
        documents, said = zip(*parts, strict=True)
        tellings.append([f"{' '.join(documents)}: {', '.join(said)}"])
    for telling in tellings:
        worker = OneWorker(**settings)
        for step in telling:
            if step == "restart":
                worker.restart()
            else:
                asked, expected = step.split(": ")
                assert worker.says(documents_of(asked)) == expected.split(", "), step
        assert len(worker.store) == int(left.split()[1].rstrip(","))
