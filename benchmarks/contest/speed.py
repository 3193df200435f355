"""Speed: in each round, each shape in turn processes the same documents.

Its processes are warm before the first document is sent. Everything counts until the last output
can be read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import msgspec

from benchmarks.command import MeasurementError, say
from benchmarks.contest.broker import ContestBroker
from benchmarks.contest.contenders import Contender, running
from benchmarks.contest.documents import Feed, Outputs
from benchmarks.contest.shapes import Shape
from benchmarks.peers.stream import Stream

WARM_UP: Final = 400
"""Documents that do not count: they load dictionaries and open connections."""

_WARM_SECONDS: Final = 120.0
_ALL_SECONDS: Final = 1_800.0
_CHECK_SECONDS: Final = 5.0
_SETTLE_SECONDS: Final = 1.0


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """``duplicates`` is the number of documents that were found to be duplicates."""

    documents: int
    seconds: float
    cpu_seconds: float
    broker_cpu_seconds: float
    internal_bytes: int
    duplicates: int


@dataclass(frozen=True)
class Live:
    stream: Stream
    broker: ContestBroker
    contenders: list[Contender]
    feed: Feed
    outputs: Outputs

    def cpu_seconds(self) -> float:
        return sum(each.cpu_seconds() for each in self.contenders)

    def await_all(self, seconds: float = _ALL_SECONDS) -> None:
        """Wait for all outputs; raises ``MeasurementError`` if one does not come in time."""
        deadline = time.monotonic() + seconds
        while not self.outputs.await_count(self.feed.sent, _CHECK_SECONDS):
            for each in self.contenders:
                each.check()
            if time.monotonic() > deadline:
                came = f"{len(self.outputs.at)} of {self.feed.sent} documents"
                raise MeasurementError(f"{came} came out in {seconds:g} s")

    def work_off(self, texts: Sequence[str]) -> Run:
        public = self.stream.topics
        duplicates, stored = self.outputs.duplicates, self.broker.bytes_beside(public)
        cpu, broker_cpu = self.cpu_seconds(), self.broker.cpu_seconds()
        started = time.monotonic()
        self.feed.send_all(texts)
        self.await_all()
        ended = time.monotonic()
        cpu, broker_cpu = self.cpu_seconds() - cpu, self.broker.cpu_seconds() - broker_cpu
        time.sleep(_SETTLE_SECONDS)
        return Run(
            documents=len(texts),
            seconds=ended - started,
            cpu_seconds=cpu,
            broker_cpu_seconds=broker_cpu,
            internal_bytes=self.broker.bytes_beside(public) - stored,
            duplicates=self.outputs.duplicates - duplicates,
        )


@contextmanager
def warm(shape: Shape, name: str, broker: ContestBroker, warm_up: Sequence[str]) -> Iterator[Live]:
    """Run a contender on topics of its own, and delete them afterwards."""
    stream = Stream(broker.address, name, broker.directory / name)
    try:
        with (
            running(shape, stream, broker) as contenders,
            Outputs(stream, shape.partitions) as outputs,
        ):
            live = Live(stream, broker, contenders, Feed(stream, shape.partitions), outputs)
            live.feed.send_all(warm_up)
            live.await_all(_WARM_SECONDS)
            time.sleep(_SETTLE_SECONDS)
            yield live
    except MeasurementError as error:
        raise MeasurementError(f"{name}: {error}") from error
    finally:
        broker.delete_topics(name)


def race(
    shapes: Sequence[Shape], rounds: int, texts: Mapping[str, Sequence[str]], broker: ContestBroker
) -> dict[str, list[Run]]:
    """Return the runs of each shape, in order of the rounds; raises ``MeasurementError``.

    ``texts`` has the documents of each stream, after those of the warm-up.
    """
    runs: dict[str, list[Run]] = {shape.name: [] for shape in shapes}
    for number in range(1, rounds + 1):
        for shape in shapes if number % 2 else shapes[::-1]:
            run = one_run(shape, f"{shape.name}-{number}", texts[shape.stream], broker)
            runs[shape.name].append(run)
            took = f"{run.cpu_seconds:.2f} s of CPU, {run.documents / run.seconds:,.0f} documents/s"
            say(f"round {number} of {rounds}, {shape.name}: {took}")
    return runs


def one_run(shape: Shape, name: str, texts: Sequence[str], broker: ContestBroker) -> Run:
    with warm(shape, name, broker, texts[:WARM_UP]) as live:
        return live.work_off(texts[WARM_UP:])
