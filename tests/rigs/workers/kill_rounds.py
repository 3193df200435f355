"""Kills a worker at random points while documents come, round after round, then checks all.

::

    python -m tests.rigs.workers.kill_rounds --rounds 20 --documents 20000 --broker kafka

A round: some documents have come while no worker ran; a worker starts; more come, a few at a time;
0.2 to 3 seconds after its shards were open it is killed by SIGKILL. In a fifth of the rounds
another worker is killed before that, while it starts. On Kafka the workers have two state
directories, and begin on either, so that what they find is often behind the changelog.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path

from streams.kafka.embedded_broker import EmbeddedBroker
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.rigs.workers.short_documents import short_documents
from tests.rigs.workers.stream_harness import Stream, Worker
from tests.rigs.workers.stream_outputs import Raw

RAW_PARTITIONS = 3
KILL_SECONDS = (0.2, 3.0)
START_KILL_SECONDS = (0.5, 4.0)
TURN_SECONDS = 0.05
STARTS_KILLED = 0.2
BATCHES = (
    (),
    ("batch.documents=50", "batch.packets=4"),
    ("batch.documents=7", "batch.packets=2", "in_flight.documents=100"),
)
"""Sizes of batches, one of which each worker has: small ones make more points to be killed at."""
logger = logging.getLogger(__name__)

_MACHINES = ("machine-0", "machine-1")


@dataclass
class KillFigures:
    """What a run of rounds came to; ``problems`` is what was wrong, in words."""

    broker: str
    delivery: str
    rounds: int
    documents: int
    seed: int
    kills: int = 0
    kills_with_records_under_way: int = 0
    unique: int = 0
    duplicates: int = 0
    dead_letters: int = 0
    lost: int = 0
    repeated: int = 0
    own_original: int = 0
    near_uniques: int = 0
    ungrounded: int = 0
    out_of_order: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    def count(self, check: Callable[[], object]) -> int:
        """Run a check; return how many violations it tells of, which are kept as a problem."""
        try:
            check()
        except AssertionError as error:
            text = str(error)
            self.problems.append(text)
            first = text.split(maxsplit=1)[0] if text else ""
            return int(first) if first.isdecimal() else 1
        return 0


def run_rounds(
    broker: Broker, directory: Path, *, rounds: int, documents: int, seed: int
) -> KillFigures:
    """Kill a worker in each of so many rounds while documents come; check what has come out."""
    started = time.monotonic()
    rng = random.Random(seed)
    with Stream(broker, directory, raw_partitions=RAW_PARTITIONS) as stream:
        figures = KillFigures(broker.name, stream.settings.delivery, rounds, documents, seed)
        queue = short_documents(rng, documents)
        share = documents // (rounds + 1)
        for number in range(1, rounds + 1):
            due = number * share - len(stream.sent)
            stream.send(islice(queue, max(0, due - share // 2)))
            if rng.random() < STARTS_KILLED:
                worker = _worker(stream, rng)
                worker.start()
                time.sleep(rng.uniform(*START_KILL_SECONDS))
                worker.kill()
            worker = _worker(stream, rng)
            worker.start()
            worker.await_ready()
            seconds = rng.uniform(*KILL_SECONDS)
            _feed(stream, queue, seconds, share // 2)
            worker.kill()
            stream.outputs.read_to_ends()
            figures.kills += 1
            figures.kills_with_records_under_way += stream.open > 0
            logger.info("round %d: killed after %.2f s, %d open", number, seconds, stream.open)
        stream.send(queue)
        worker = stream.started(state=_MACHINES[0])
        figures.count(stream.settle)
        worker.stop_gently()
        stream.outputs.read_to_ends()
        _judge(stream, figures)
    figures.seconds = round(time.monotonic() - started, 1)
    return figures


def _worker(stream: Stream, rng: random.Random) -> Worker:
    machines = _MACHINES if stream.broker.supports_transactions else _MACHINES[:1]
    return stream.worker(*rng.choice(BATCHES), state=rng.choice(machines))


def _feed(stream: Stream, queue: Iterator[Raw], seconds: float, records: int) -> None:
    """Send records a few at a time, so fast that they would last as long as a round can."""
    a_turn = max(1, round(records * TURN_SECONDS / KILL_SECONDS[1]))
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        stream.send(islice(queue, a_turn))
        stream.outputs.read(min(TURN_SECONDS, max(0.0, until - time.monotonic())))


def _judge(stream: Stream, figures: KillFigures) -> None:
    sent, judge, outputs = stream.sent, stream.judge, stream.outputs
    figures.unique = len(outputs.uniques)
    figures.duplicates = len(outputs.duplicates)
    figures.dead_letters = len(outputs.dead_letters)
    figures.lost = stream.open
    figures.repeated = sum(outputs.count.values()) - len(outputs.count)
    figures.own_original = sum(
        source == said.original for source, said in outputs.duplicates.items()
    )
    may_repeat = not stream.broker.supports_transactions
    figures.count(lambda: judge.conserved(sent, outputs, repeats_allowed=may_repeat))
    figures.count(lambda: judge.unchanged(sent, outputs))
    figures.out_of_order = figures.count(lambda: judge.ordered(outputs))
    figures.near_uniques = figures.count(lambda: judge.separated(sent, outputs))
    figures.ungrounded = figures.count(lambda: judge.grounded(sent, outputs))


def main() -> int:
    """Run rounds from the command line; write JSON; return 0 when nothing was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.rigs.workers.kill_rounds")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--broker", choices=("embedded", "kafka"), default="embedded")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="firstseen-")))
        server: EmbeddedBroker | KafkaBroker = EmbeddedBroker()
        if options.broker == "kafka":
            server = KafkaBroker(directory / "kafka")
        stack.enter_context(server)
        figures = run_rounds(
            Broker(options.broker, server),
            directory,
            rounds=options.rounds,
            documents=options.documents,
            seed=options.seed,
        )
    sys.stdout.write(json.dumps(asdict(figures), indent=2) + "\n")
    return 1 if figures.problems else 0


if __name__ == "__main__":
    sys.exit(main())
