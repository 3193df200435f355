"""The status of a worker, from its parts and its metrics."""

from __future__ import annotations

import contextlib
import math
import os
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from simhash_core.text.profiles import Profile
from streams.documents.timestamps import format_rfc3339
from streams.monitoring.group_watch import GroupWatch
from streams.monitoring.health import Health
from streams.monitoring.metric_history import (
    EVERY_SECONDS,
    PROCESS_CPU,
    PROCESS_MEMORY,
    MetricHistory,
    Sample,
    counts,
    quantile,
    rates,
    since,
)
from streams.monitoring.metrics import IndexInfo, Metrics
from streams.monitoring.worker_state import ShardState, WorkerView
from streams.ops_page.duplicates import Held, RecentDocuments
from streams.settings.settings import Settings
from streams.store.shard_directory import shard_directory

# ---- Recent sizes of the fullest bucket, to notice hot buckets.

KEPT_SECONDS: Final = 300.0
_SAMPLES_LIMIT: Final = 1024


class FullestBuckets:
    """Sizes of the fullest bucket of sampled look-ups; thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._sizes: deque[tuple[float, int]] = deque(maxlen=_SAMPLES_LIMIT)

    def note(self, documents: int) -> None:
        with self._lock:
            self._sizes.append((self._clock(), documents))

    def fullest(self) -> int | None:
        oldest = self._clock() - KEPT_SECONDS
        with self._lock:
            return max((size for at, size in self._sizes if at >= oldest), default=None)


# ---- ``GET /api/status``; docs/operations.md describes each field, which a test checks.

STATUS_SCHEMA: Final = "firstseen.status/3"


class Lag(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    messages: int


class ShardStatus(msgspec.Struct, frozen=True):
    partition: int
    state: str
    entries: int
    waiting: int
    next_offset: int
    log_position: int
    store_bytes: int
    remaining: int
    recovered: float | None


class Ordering(msgspec.Struct, frozen=True):
    leads: bool
    leader: str | None
    format_version: int | None
    log_position: int
    log_end: int
    undecided_documents: int
    undecided_oldest_seconds: float
    reports_missing: list[int]
    packets_skipped: int
    control_records_refused: int
    foreign_records: int


class InFlight(msgspec.Struct, frozen=True):
    documents: int
    bytes: int


class Throughput(msgspec.Struct, frozen=True):
    sample_seconds: float
    documents: list[float]
    duplicates: list[float]


class Latency(msgspec.Struct, frozen=True):
    over_seconds: float
    documents: int
    p50: float | None
    p95: float | None
    p99: float | None


class Distances(msgspec.Struct, frozen=True):
    bits: int
    near: int
    counts: list[int]
    beyond: int


class Candidates(msgspec.Struct, frozen=True):
    per_lookup: float | None
    fullest_bucket: int | None
    alert_above: int


class Process(msgspec.Struct, frozen=True):
    cpu_cores: float | None
    memory_bytes: int


class Troubles(msgspec.Struct, frozen=True):
    errors: dict[str, int]
    dead_letters: dict[str, int]
    skipped: int
    rebalances: int
    transactions: dict[str, int]


class GroupWorker(msgspec.Struct, frozen=True):
    name: str
    host: str
    page: str | None
    is_this: bool
    leads: bool
    partitions: list[int]
    documents: dict[str, int] | None
    since: str | None
    reported: str | None


class Group(msgspec.Struct, frozen=True):
    age_seconds: float
    described: bool
    partitions: int
    lag: int | None
    documents: dict[str, int]
    workers: list[GroupWorker]


class ThisWorker(msgspec.Struct, frozen=True):
    name: str
    host: str
    started: str


class Status(msgspec.Struct, frozen=True):
    worker: ThisWorker
    version: str
    application_id: str
    index: str
    profile: str
    delivery: str
    uptime_seconds: float
    why_dead: str | None
    why_not_ready: str | None
    why_waiting: str | None
    broker_up: bool
    disk_free_bytes: int
    disk_size_bytes: int
    documents: dict[str, int]
    throughput: Throughput
    latency: Latency
    lag: list[Lag]
    ordering: Ordering
    in_flight: InFlight
    shards: list[ShardStatus]
    candidates: Candidates
    distances: Distances
    process: Process
    troubles: Troubles
    group: Group | None
    recent: Held
    schema: str = STATUS_SCHEMA


CANDIDATES_ALERT: Final = 1000  # as in the alert CandidateExplosion, which a test compares
_MILLISECONDS: Final = 1000
_LATELY_SECONDS: Final = 60.0
_STORE_SECONDS: Final = 10.0
_DUPLICATES: Final = frozenset({"near_duplicate", "exact_duplicate"})
_QUANTILES: Final[Mapping[str, float]] = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


class Monitored(NamedTuple):
    """The parts of a worker that its pages show, thread-safe; ``name`` is its name in the group."""

    view: WorkerView
    metrics: Metrics
    health: Health
    recent: RecentDocuments
    fullest: FullestBuckets
    index_info: IndexInfo
    profile: Profile
    name: str
    group: GroupWatch


class StatusReport:
    def __init__(self, settings: Settings, parts: Monitored) -> None:
        self._settings = settings
        self._parts = parts
        self._history = MetricHistory(parts.metrics)
        self._started = time.monotonic()
        self._started_ms = int(time.time() * _MILLISECONDS)
        self._store_bytes: dict[int, int] = {}
        self._measured = -math.inf
        self._to_recover: dict[int, int] = {}

    def tick(self) -> None:
        self._history.take()

    def status(self) -> Status:
        parts, samples = self._parts, self._history.samples()
        last, of_partitions = samples[-1], self._history.of_partitions()
        documents = _by_label(last, "firstseen_documents_total")
        return Status(
            worker=ThisWorker(parts.name, socket.gethostname(), format_rfc3339(self._started_ms)),
            version=version("firstseen"),
            application_id=parts.index_info.application_id,
            index=parts.index_info.identity,
            profile=parts.index_info.profile,
            delivery=parts.index_info.delivery,
            uptime_seconds=round(time.monotonic() - self._started, 1),
            why_dead=parts.health.why_dead(),
            why_not_ready=parts.view.why_not_ready(),
            why_waiting=parts.health.why_waiting(),
            broker_up=bool(last.total("firstseen_broker_up")),
            disk_free_bytes=int(last.total("firstseen_state_disk_free_bytes")),
            disk_size_bytes=int(last.total("firstseen_state_disk_size_bytes")),
            documents=documents,
            throughput=_throughput(samples),
            latency=_latency(samples),
            lag=[
                Lag(topic, int(partition), int(messages))
                for (topic, partition), messages in sorted(
                    of_partitions.by_label("firstseen_consumer_lag_messages").items()
                )
            ],
            ordering=_ordering(last, parts.view),
            in_flight=InFlight(
                documents=int(last.total("firstseen_in_flight_documents")),
                bytes=int(last.total("firstseen_in_flight_bytes")),
            ),
            shards=self._shards(),
            candidates=_candidates(samples, parts.fullest.fullest()),
            distances=_distances(parts.metrics, parts.profile),
            process=_process(samples),
            troubles=_troubles(last, of_partitions),
            group=self._group(documents),
            recent=parts.recent.held(),
        )

    def _group(self, own_documents: dict[str, int]) -> Group | None:
        """Return the group; this worker's own figures are current."""
        known, leader = self._parts.group.group(), self._parts.view.leader or ""
        if known is None:
            return None
        documents = Counter(own_documents)
        workers: list[GroupWorker] = []
        for name, host, partitions, note in known.workers:
            is_this = name == self._parts.name
            noted = note.documents if note else None
            documents.update({} if is_this else noted or {})
            workers.append(
                GroupWorker(
                    name=name,
                    host=host,
                    page=(note.page or None) if note else None,
                    is_this=is_this,
                    leads=leader.startswith(f"{name}."),
                    partitions=list(partitions),
                    documents=own_documents if is_this else noted,
                    since=format_rfc3339(note.since_ms) if note else None,
                    reported=format_rfc3339(note.at_ms) if note else None,
                )
            )
        return Group(
            age_seconds=round(known.age_seconds, 1),
            described=known.described,
            partitions=known.partitions,
            lag=known.lag,
            documents=dict(documents),
            workers=workers,
        )

    def _shards(self) -> list[ShardStatus]:
        shards = self._parts.view.shards()
        sizes = self._sizes(shards)
        return [
            ShardStatus(
                partition=partition,
                state=_state_name(shard),
                entries=shard.entries,
                waiting=shard.waiting,
                next_offset=shard.next_offset,
                log_position=shard.log_position,
                store_bytes=sizes.get(partition, 0),
                remaining=shard.recovery_remaining,
                recovered=self._recovered(partition, shard),
            )
            for partition, shard in sorted(shards.items())
        ]

    def _recovered(self, partition: int, shard: ShardState) -> float | None:
        """Return the share of a changelog that is read; 1 is the most that ever remained."""
        if shard.is_open or not shard.recovery_remaining:
            self._to_recover.pop(partition, None)
            return None
        whole = max(self._to_recover.get(partition, 0), shard.recovery_remaining)
        self._to_recover[partition] = whole
        return round(1 - shard.recovery_remaining / whole, 4)

    def _sizes(self, shards: Iterable[int]) -> Mapping[int, int]:
        """Return the bytes of each shard's directory, measured every ten seconds."""
        if time.monotonic() - self._measured > _STORE_SECONDS:
            self._measured = time.monotonic()
            directory, name = self._settings.state_dir, self._settings.application_id
            self._store_bytes = {
                partition: _bytes_under(shard_directory(directory, name, partition))
                for partition in shards
            }
        return self._store_bytes


def _state_name(shard: ShardState) -> str:
    if shard.is_open:
        return "ready"
    return "recovering" if shard.recovery_remaining else "opening"


def _ordering(last: Sample, view: WorkerView) -> Ordering:
    return Ordering(
        leads=view.leads,
        leader=view.leader,
        format_version=view.format_version,
        log_position=int(last.total("firstseen_log_position_offset")),
        log_end=int(last.total("firstseen_log_end_offset")),
        undecided_documents=int(last.total("firstseen_undecided_documents")),
        undecided_oldest_seconds=round(last.total("firstseen_undecided_oldest_seconds"), 3),
        reports_missing=sorted(int(p) for (p,) in last.by_label("firstseen_report_missing")),
        packets_skipped=int(last.total("firstseen_packets_skipped_total")),
        control_records_refused=int(last.total("firstseen_control_records_refused_total")),
        foreign_records=int(last.total("firstseen_foreign_records_total")),
    )


def _throughput(samples: Sequence[Sample]) -> Throughput:
    name = "firstseen_documents_total"
    documents = rates(samples, name, lambda _: True)
    duplicates = rates(samples, name, lambda labels: labels[0] in _DUPLICATES)
    return Throughput(
        EVERY_SECONDS, [round(x, 2) for x in documents], [round(x, 2) for x in duplicates]
    )


def _latency(samples: Sequence[Sample]) -> Latency:
    last, first = samples[-1], since(samples, _LATELY_SECONDS)
    buckets = counts("firstseen_end_to_end_latency_seconds", last, first)
    quantiles = {name: quantile(buckets, share) for name, share in _QUANTILES.items()}
    return Latency(
        over_seconds=round(last.at - first.at, 1),
        documents=int(sum(count for _, count in buckets)),
        **{name: None if value is None else round(value, 4) for name, value in quantiles.items()},
    )


def _distances(metrics: Metrics, profile: Profile) -> Distances:
    counts_by_bit = list(metrics.distance_counts)
    split = profile.distance + 1
    return Distances(
        bits=profile.bits,
        near=profile.distance,
        counts=counts_by_bit[:split],
        beyond=sum(counts_by_bit[split:]),
    )


def _candidates(samples: Sequence[Sample], fullest: int | None) -> Candidates:
    last, first = samples[-1], samples[0]
    name = "firstseen_candidates_per_lookup"
    lookups = last.total(f"{name}_count") - first.total(f"{name}_count")
    candidates = last.total(f"{name}_sum") - first.total(f"{name}_sum")
    mean = round(candidates / lookups, 2) if lookups else None
    return Candidates(per_lookup=mean, fullest_bucket=fullest, alert_above=CANDIDATES_ALERT)


def _process(samples: Sequence[Sample]) -> Process:
    last, first = samples[-1], since(samples, _LATELY_SECONDS)
    seconds = last.at - first.at
    used = last.total(PROCESS_CPU) - first.total(PROCESS_CPU)
    return Process(
        cpu_cores=round(used / seconds, 3) if seconds else None,
        memory_bytes=int(last.total(PROCESS_MEMORY)),
    )


def _troubles(last: Sample, of_partitions: Sample) -> Troubles:
    errors = last.by_label("firstseen_errors_total")
    dead_letters = _by_label(last, "firstseen_dead_letters_total")
    return Troubles(
        errors={"/".join(labels): int(count) for labels, count in errors.items() if count},
        dead_letters={reason: count for reason, count in dead_letters.items() if count},
        skipped=int(of_partitions.total("firstseen_skipped_messages_total")),
        rebalances=int(last.total("firstseen_rebalances_total")),
        transactions=_by_label(last, "firstseen_transactions_total"),
    )


def _by_label(sample: Sample, name: str) -> dict[str, int]:
    return {labels[0]: int(value) for labels, value in sample.by_label(name).items()}


def _bytes_under(directory: Path) -> int:
    """Return the bytes of all files below a directory; files may come and go."""
    total = 0
    for path, _, files in os.walk(directory):  # leaves out directories that are gone
        for file in files:
            with contextlib.suppress(OSError):
                total += (Path(path) / file).stat().st_size
    return total
