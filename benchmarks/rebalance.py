"""Measures for how long partitions have no output while a group changes.

Workers on a real Kafka take documents at a constant rate. In each round one of them is killed and
starts again after the others have its partitions; then another worker joins without a disk, and
stops again. The pause of a partition is the longest time between two of its outputs. Partitions
that move and all others are separate. With ``--documents``, each partition has so many documents
in the index before, which a worker without a disk reads from the changelog first.

    python -m benchmarks.rebalance [--rounds N] [--standbys N] [--group-protocol NAME]
"""

from __future__ import annotations

import shutil
import signal
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice, pairwise
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.command import MeasurementError, add_number, errors_reported, new_parser, say
from benchmarks.contest.broker import ContestBroker, running_broker
from benchmarks.contest.contenders import (
    SESSION_SECONDS,
    Contender,
    await_shared,
    create_topics,
    partitions_of_members,
    worker,
)
from benchmarks.contest.documents import Feed, Outputs, shuffled
from benchmarks.contest.shapes import wide
from benchmarks.peers.stream import Stream
from benchmarks.report import Figures, Spread, machine, publish
from benchmarks.restart import fill_changelogs
from benchmarks.texts import CHARACTERS, generated_documents
from streams.settings.loader import load_settings
from tests.rigs.brokers.kafka_broker import KafkaBrokerError

_PARTITIONS: Final = 6
_WORKERS: Final = 3
_A_SECOND: Final = 200.0
_ROUNDS: Final = 3
_BROKERS_SESSION: Final = 6.0  # of the protocol ``consumer``, in the tests' broker
_CALM_SECONDS: Final = 5.0
_SOURCES: Final = 200  # generated documents, from whose clauses the others are made


class _Group(NamedTuple):
    stream: Stream
    broker: ContestBroker
    members: list[Contender]
    outputs: Outputs

    def await_shared(self) -> None:
        await_shared(self.members, self.stream, self.broker)

    def owned(self) -> dict[int, str]:
        """Return the member that owns each partition."""
        members = partitions_of_members(self.stream, self.broker)
        return {partition: name for name, each in members.items() for partition in each}

    def pauses(self, change: Callable[[], None]) -> tuple[float, float]:
        """Change the group; return the longest pause of what moves, and of the other partitions."""
        before = self.owned()
        began = time.monotonic()
        change()
        self.await_shared()
        time.sleep(_CALM_SECONDS)
        ended = time.monotonic()
        after = self.owned()
        longest = [0.0, 0.0]
        for partition, pause in self._longest(began, ended).items():
            stays = before[partition] == after[partition]
            longest[stays] = max(longest[stays], pause)
        return longest[0], longest[1]

    def _longest(self, began: float, ended: float) -> dict[int, float]:
        """Return the longest time between two outputs of each partition that is in this period."""
        times: defaultdict[int, list[float]] = defaultdict(list)
        for key, at in self.outputs.at.copy().items():
            times[int(key) % _PARTITIONS].append(at)
        if len(times) < _PARTITIONS:
            raise MeasurementError("a partition has no outputs")
        return {
            partition: max(
                (
                    after - before
                    for before, after in pairwise([*sorted(each), ended])
                    if after > began and before < ended
                ),
            )
            for partition, each in times.items()
        }


@contextmanager
def _fed(feed: Feed, texts: Iterator[str]) -> Iterator[None]:
    """Send documents at the constant rate until the end of the block."""
    ends = threading.Event()
    failures: list[Exception] = []

    def send() -> None:
        try:
            while not ends.is_set():
                feed.send_paced(list(islice(texts, int(_A_SECOND))), _A_SECOND, at_once=True)
        except Exception as error:  # noqa: BLE001 - told to who waits, in its own thread
            failures.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()
    if failures:
        raise failures[0]


def run(rounds: int, standbys: int, protocol: str, documents: int) -> Figures:
    """Return the pauses in seconds; that after a kill is without the session of the dead worker.

    Raises ``KafkaBrokerError`` and ``MeasurementError``.
    """
    before = machine()
    session = _BROKERS_SESSION if protocol == "consumer" else SESSION_SECONDS
    settings = {"standbys": f"{standbys}", "group_protocol": protocol}
    shape = wide(_PARTITIONS, _WORKERS)
    pauses: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    with (
        tempfile.TemporaryDirectory(prefix="firstseen-benchmark-") as name,
        running_broker(Path(name)) as broker,
        ExitStack() as stack,
    ):
        stream = Stream(broker.address, "rebalance", Path(name) / "rebalance")
        create_topics(shape, stream, broker)
        if documents:
            loaded = load_settings(
                flags={"--application-id": stream.name, "--broker": stream.brokers},
                assignments=[f"topics.raw={stream.raw}", f"profile={shape.profile}"],
                environ={},
            ).settings
            fill_changelogs(loaded, broker, documents, _PARTITIONS)
        *members, added = [
            worker(shape, stream, SESSION_SECONDS, number, settings)
            for number in range(_WORKERS + 1)
        ]
        for each in (*members, added):
            stack.callback(each.end, signal.SIGKILL)
        for each in members:
            each.start()
        outputs = stack.enter_context(Outputs(stream, _PARTITIONS))
        group = _Group(stream, broker, members, outputs)
        group.await_shared()
        texts = shuffled([*generated_documents(_SOURCES, CHARACTERS)], CHARACTERS)
        feed = Feed(stream, _PARTITIONS)
        with _fed(feed, texts):
            time.sleep(_CALM_SECONDS)
            for number in range(rounds):
                say(f"round {number + 1} of {rounds}")
                for event, pause in _round(group, added, number).items():
                    pauses[event].append(pause)
        if not outputs.await_count(feed.sent, 60.0):
            raise MeasurementError(f"{feed.sent - len(outputs.at)} documents have no output")
    pauses["killed"] = [
        (max(0.0, moved - session), max(0.0, others - session))
        for moved, others in pauses["killed"]
    ]
    return {
        "machine": before,
        "rounds": rounds,
        "standbys": standbys,
        "group_protocol": protocol,
        "documents_a_partition": documents,
        "pauses": [
            {
                "event": event,
                "moved": Spread.of(moved for moved, _ in each),
                "others": Spread.of(others for _, others in each),
            }
            for event, each in pauses.items()
        ],
    }


def _round(group: _Group, added: Contender, number: int) -> dict[str, tuple[float, float]]:
    members = group.members
    killed = members.pop(number % _WORKERS)

    def returns() -> None:
        members.insert(number % _WORKERS, killed)
        killed.start()

    def joins() -> None:
        members.append(added)
        added.start()

    def stops() -> None:
        members.remove(added)
        added.end(signal.SIGTERM)

    pauses = {
        "killed": group.pauses(lambda: killed.end(signal.SIGKILL)),
        "returned": group.pauses(returns),
        "joined": group.pauses(joins),
        "stopped": group.pauses(stops),
    }
    shutil.rmtree(group.stream.directory / f"state-{_WORKERS}")
    return pauses


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser("benchmarks.rebalance", __doc__)
    add_number(parser, "--rounds", _ROUNDS, "rounds")
    parser.add_argument("--standbys", type=int, default=0, help="standbys of each shard")
    parser.add_argument("--group-protocol", choices=("classic", "consumer"), default="classic")
    parser.add_argument(
        "--documents", type=int, default=0, help="documents of each partition in the index before"
    )
    options = parser.parse_args(arguments)
    with errors_reported(KafkaBrokerError):
        figures = run(options.rounds, options.standbys, options.group_protocol, options.documents)
        publish(figures, options.json)


if __name__ == "__main__":
    main()
