"""The demo: an embedded broker, one worker, a stream of documents, and an observer.

Only the documents are generated. The process of ``firstseen worker`` and Kafka's protocol are real.
"""

from __future__ import annotations

import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Final, NoReturn

import msgspec
from msgspec.structs import replace

from simhash_core.documents import SourcePosition
from simhash_core.errors import FirstseenError, UsageError
from streams.corpus.corpus import generate
from streams.demo.examples import Examples
from streams.demo.feed import LONGEST_BYTES, Feed, FeedRecord, Ledger, Observer
from streams.demo.live_view import Progress, View
from streams.demo.scoring import Truth
from streams.demo.summary import DemoReport, worker_times
from streams.demo.worker_process import WorkerProcess
from streams.documents.output_records import ReceivedOutput
from streams.documents.raw_documents import DocumentReader
from streams.files.document_files import InputDocuments
from streams.kafka.client_config import client_config
from streams.kafka.embedded_broker import EmbeddedBroker
from streams.settings.loader import load_settings
from streams.settings.settings import Settings

OUTPUT_PARTITIONS: Final = 4  # of each topic of documents
RAW_PARTITIONS: Final = 1
"""One partition keeps the order of the stream, so originals come before copies."""
DOCUMENTS: Final = 3_000
SEED: Final = 1

_OURS: Final = (
    "brokers",
    "state_dir",
    "broker_wait_seconds",
    "web.enabled",
    "web.host",
    "web.port",
)
# The embedded broker has no read isolation, needs a session time-out for each change of the group,
# and delays an empty fetch to its maximum (see its module). The demo reads health and metrics
# without the token that a worker's page may have.
_BESIDE: Final = {
    "delivery": "at_least_once",
    "session_timeout_seconds": "6",
    "kafka.fetch.wait.max.ms": "10",
    "web.open_monitoring": "true",
}


class DemoRequest(msgspec.Struct, frozen=True, kw_only=True):
    """``assignments`` are settings of the worker, ``name=value``.

    If ``documents`` is None, all of ``input`` is sent. If ``state_dir`` is None, the demo uses a
    temporary directory.
    """

    documents: int | None = None
    seed: int = SEED
    input: str | None = None
    profile: str | None = None
    assignments: tuple[str, ...] = ()
    state_dir: Path | None = None
    keep_running: bool = False

    def generated(self) -> int:
        return DOCUMENTS if self.documents is None else self.documents


def _settings_of(request: DemoRequest, brokers: str, state_dir: Path) -> tuple[Settings, list[str]]:
    """Return the settings of the demo, and the options of a worker with them.

    Environment and files are ignored. Raises ``SettingsError``, or ``UsageError`` for a setting
    that the demo chooses itself.
    """
    names = {assignment.partition("=")[0].strip() for assignment in request.assignments}
    for name in _OURS:
        if name in names:
            raise UsageError(f"--set {name}: the demo does not allow this setting")
    assignments = [*request.assignments, f"state_dir={state_dir}"]
    assignments += [f"{name}={value}" for name, value in _BESIDE.items() if name not in names]
    flags = {"--broker": brokers}
    if request.profile is not None:
        flags["--profile"] = request.profile
    settings = load_settings(flags=flags, assignments=assignments, environ={}).settings
    options = [*flags.items(), *(("--set", each) for each in assignments)]
    return settings, [part for option in options for part in option]


# ---- The records: generated with known truth, or from the user's files.


class _StreamSource:
    """The records, which can be iterated once."""

    def __init__(self, request: DemoRequest, settings: Settings) -> None:
        self.too_long = 0
        self._request = request
        self._input = (
            None
            if request.input is None
            else InputDocuments([request.input], settings.fields, LONGEST_BYTES)
        )

    def __iter__(self) -> Iterator[FeedRecord]:
        if self._input is not None:
            yield from islice(self._read(self._input), self._request.documents)
            return
        for record in generate(self._request.seed, self._request.generated()):
            yield FeedRecord(record.key, record.value, record)

    def share(self, sent: int, decided: int) -> float | None:
        """Return the share of the stream that is done, 0 to 1; None if its length is unknown."""
        if self._input is None or self._request.documents is not None:
            return decided / max(1, self._request.generated())
        if self._input.total_bytes is None:
            return None
        read = self._input.bytes_read / max(1, self._input.total_bytes)
        return read * decided / max(1, sent)

    def _read(self, documents: InputDocuments) -> Iterator[FeedRecord]:
        for record in documents:
            if record.value is None:
                self.too_long += 1
            else:
                yield FeedRecord(record.key, record.value, where=record.where)


# ---- The demo itself.

_STALL_SECONDS: Final = 30.0
_SHOW_SECONDS: Final = 0.125
_RATE_SECONDS: Final = 2.0
_QUIET_SECONDS: Final = 1.0
_NOWHERE: Final = "127.0.0.1:1"  # for checking the settings before there is a broker


class DemoError(FirstseenError):
    """The demo cannot continue."""


@contextmanager
def running_demo(request: DemoRequest, view: View) -> Iterator[Demo]:
    """Start a demo, and clean up at the end of the block.

    Raises ``FirstseenError`` for invalid settings, a state directory in use, and a failed start.
    """
    with ExitStack() as stack:
        state_dir = request.state_dir
        if state_dir is None:
            state_dir = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="firstseen-")))
        elif state_dir.exists() and (not state_dir.is_dir() or any(state_dir.iterdir())):
            raise UsageError(f"{state_dir} is not an empty directory: a demo needs an empty one")
        settings, _ = _settings_of(request, _NOWHERE, state_dir)  # checked before anything starts
        source = _StreamSource(request, settings)
        state_dir.mkdir(parents=True, exist_ok=True)

        view.starting("Starting a Kafka broker in its own process")
        broker = stack.enter_context(EmbeddedBroker())
        settings, options = _settings_of(request, broker.bootstrap_servers, state_dir)
        outputs = _create_topics(broker, settings)
        view.starting("Starting a worker")
        worker = stack.enter_context(WorkerProcess(options, state_dir / "worker.log"))
        demo = Demo(request, settings, broker, worker, source, outputs)
        stack.callback(demo.close)
        worker.await_ready()
        yield demo


def _create_topics(broker: EmbeddedBroker, settings: Settings) -> dict[str, int]:
    topics = settings.topics
    broker.create_topic(topics.raw, RAW_PARTITIONS)
    for name in (topics.log, topics.reports):
        broker.create_topic(name, 1)
    broker.create_topic(topics.changelog, RAW_PARTITIONS)
    outputs = dict.fromkeys(settings.output_topics, OUTPUT_PARTITIONS) | {topics.dead_letters: 1}
    for name, partitions in outputs.items():
        broker.create_topic(name, partitions)
    return outputs


class Demo:
    def __init__(
        self,
        request: DemoRequest,
        settings: Settings,
        broker: EmbeddedBroker,
        worker: WorkerProcess,
        source: _StreamSource,
        outputs: dict[str, int],
    ) -> None:
        self.request = request
        self.settings = settings
        self.worker = worker
        self.error = ""  # why the worker did not end cleanly, "" if it did
        self._broker = broker
        self._source = source
        self._truth = Truth()
        self._ledger = Ledger()
        self.examples = Examples(DocumentReader(settings.fields, settings.max_record_bytes))
        self._observer = Observer(settings, outputs, self._note_output)
        self._feed = Feed(
            client_config(settings), settings.topics.raw, source, self._ledger, self._note_sent
        )
        self._began = self._ended = time.monotonic()
        self._recent: deque[tuple[float, int]] = deque()

    def play(self, view: View) -> DemoReport:
        """Send the stream, read the outputs, and return the figures.

        Records without an output after 30 s are lost. Raises ``WorkerProcessError`` if the worker
        dies. The worker is stopped unless ``keep_running``.
        """
        _, cpu_seconds_before = worker_times(self.worker.metrics())
        self._began = moved_at = time.monotonic()
        shown_at = 0.0
        while not (self._feed.finished and self._ledger.lost == 0):
            sent = self._feed.produced
            self._feed.turn()
            got = self._observer.read()
            now = time.monotonic()
            if got or self._feed.produced > sent:
                moved_at = now
            elif now - moved_at > _STALL_SECONDS:
                break
            if now - shown_at >= _SHOW_SECONDS:
                self._check()
                view.show(self._progress(now), self.examples.change)
                shown_at = now
        self._ended = self._observer.last_output_at
        view.show(self._progress(time.monotonic()), self.examples.change)
        stages, cpu_seconds = worker_times(self.worker.metrics())
        self._read_the_rest()
        report = replace(
            self._report(self._ended - self._began),
            worker_cpu_seconds=round(cpu_seconds - cpu_seconds_before, 3),
            stages=stages,
        )
        if self.request.input is not None:
            return report
        score = self._truth.score()
        recall, precision = score.overall.recall, score.overall.precision
        return replace(report, recall=recall, precision=precision, by_kind=score.by_kind)

    def stay(self) -> NoReturn:
        """Keep everything running until Ctrl-C; raise if the worker or the broker dies."""
        while True:
            self._check()
            time.sleep(_QUIET_SECONDS)

    def close(self) -> None:
        self._feed.close()
        self._observer.close()

    def _check(self) -> None:
        self.worker.check()
        if not self._broker.is_running():
            raise DemoError("the embedded broker has ended: see its messages above")

    def _read_the_rest(self) -> None:
        """Read on after the last expected output, to notice repeated ones."""
        if self.request.keep_running:
            until = time.monotonic() + _QUIET_SECONDS
            while time.monotonic() < until:
                self._observer.read()
        else:
            self.error = self.worker.stop()
        self._observer.read_to_ends()

    def _note_sent(self, record: FeedRecord, source: SourcePosition) -> None:
        self.examples.note_sent(record.key, record.value, source, record.where)
        if record.generated is not None:
            self._truth.note_sent(record.generated, source)

    def _note_output(self, output: ReceivedOutput) -> None:
        self._ledger.note_output(output)
        self.examples.note_output(output)
        if self.request.input is None:
            self._truth.note_output(output)

    def _progress(self, now: float) -> Progress:
        decided = self._ledger.decided
        self._recent.append((now, decided))
        while now - self._recent[0][0] > _RATE_SECONDS:
            self._recent.popleft()
        since, decided_then = self._recent[0]
        return Progress(
            self._report(now - self._began),
            self._ledger.latest,
            self._source.share(self._feed.produced, decided),
            (decided - decided_then) / max(now - since, _SHOW_SECONDS),
        )

    def _report(self, seconds: float) -> DemoReport:
        """Return the figures so far, without the score and the times of the worker."""
        ledger = self._ledger
        seconds = max(seconds, 1e-3)
        return DemoReport(
            input=self.request.input,
            seed=self.request.seed if self.request.input is None else None,
            profile=self.settings.profile,
            documents=ledger.sent,
            unique=ledger.unique,
            undecidable=ledger.undecidable,
            duplicates=ledger.by_method.total(),
            exact_duplicates=ledger.by_method["exact"],
            near_duplicates=ledger.by_method["near"],
            dead_letters=ledger.by_reason.total(),
            dead_letters_by_reason=dict(ledger.by_reason.most_common()),
            tombstones=ledger.tombstones,
            too_long=self._source.too_long,
            lost=ledger.lost,
            repeated=ledger.repeated,
            seconds=round(seconds, 3),
            documents_per_second=round(ledger.decided / seconds, 1),
            shards=RAW_PARTITIONS,
        )
