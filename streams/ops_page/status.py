"""The status of a worker, from its parts and its metrics."""

from __future__ import annotations

import math
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Final, NamedTuple

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
from streams.monitoring.metrics import PREFIX, IndexInfo, Metrics
from streams.monitoring.worker_state import ShardState, WorkerView
from streams.ops_page.duplicates import JsonObject, RecentDocuments
from streams.settings.settings import Settings
from streams.store.shard_directory import bytes_under, shard_directory

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

    def status(self) -> JsonObject:
        parts, samples = self._parts, self._history.samples()
        view, health, profile = parts.view, parts.health, parts.profile
        last, of_partitions = samples[-1], self._history.of_partitions()
        documents = _by_label(last, "documents_total")
        by_distance = list(parts.metrics.distance_counts)
        split = profile.distance + 1
        return {
            "worker": {
                "name": parts.name,
                "host": socket.gethostname(),
                "started": format_rfc3339(self._started_ms),
            },
            "version": version("firstseen"),
            "application_id": parts.index_info.application_id,
            "index": parts.index_info.identity,
            "profile": parts.index_info.profile,
            "delivery": parts.index_info.delivery,
            "uptime_seconds": round(time.monotonic() - self._started, 1),
            "why_dead": health.why_dead(),
            "why_not_ready": view.why_not_ready(),
            "why_waiting": health.why_waiting,
            "broker_up": bool(_total(last, "broker_up")),
            "disk_free_bytes": _total(last, "state_disk_free_bytes"),
            "disk_size_bytes": _total(last, "state_disk_size_bytes"),
            "documents": documents,
            "throughput": _throughput(samples),
            "latency": _latency(samples),
            "lag": [
                {"topic": topic, "partition": int(partition), "messages": int(messages)}
                for (topic, partition), messages in sorted(
                    of_partitions.by_label(PREFIX + "consumer_lag_messages").items()
                )
            ],
            "ordering": {
                "leads": view.leads,
                "leader": view.leader,
                "format_version": view.format_version,
                "log_position": _total(last, "log_position_offset"),
                "log_end": _total(last, "log_end_offset"),
                "undecided_documents": _total(last, "undecided_documents"),
                "undecided_oldest_seconds": round(
                    last.total(PREFIX + "undecided_oldest_seconds"), 3
                ),
                "reports_missing": sorted(map(int, _by_label(last, "report_missing"))),
                "packets_skipped": _total(last, "packets_skipped_total"),
                "control_records_refused": _total(last, "control_records_refused_total"),
                "foreign_records": _total(last, "foreign_records_total"),
            },
            "in_flight": {
                "documents": _total(last, "in_flight_documents"),
                "bytes": _total(last, "in_flight_bytes"),
            },
            "shards": self._shards(),
            "candidates": _candidates(samples) | {"fullest_bucket": parts.fullest.fullest()},
            "distances": {
                "bits": profile.bits,
                "near": profile.distance,
                "counts": by_distance[:split],
                "beyond": sum(by_distance[split:]),
            },
            "process": _process(samples),
            "troubles": {
                "errors": {
                    "/".join(labels): int(count)
                    for labels, count in last.by_label(PREFIX + "errors_total").items()
                    if count
                },
                "dead_letters": {
                    reason: count
                    for reason, count in _by_label(last, "dead_letters_total").items()
                    if count
                },
                "skipped": _total(of_partitions, "skipped_messages_total"),
                "rebalances": _total(last, "rebalances_total"),
                "transactions": _by_label(last, "transactions_total"),
            },
            "group": self._group(documents),
            "recent": parts.recent.held(),
            "schema": STATUS_SCHEMA,
        }

    def _group(self, own_documents: dict[str, int]) -> JsonObject | None:
        """Return the group; this worker's own figures are current."""
        known, leader = self._parts.group.group(), self._parts.view.leader or ""
        if known is None:
            return None
        documents = Counter(own_documents)
        workers: list[JsonObject] = []
        for name, host, partitions, note in known.workers:
            is_this = name == self._parts.name
            noted = note.documents if note else None
            documents.update({} if is_this else noted or {})
            workers.append(
                {
                    "name": name,
                    "host": host,
                    "page": (note.page or None) if note else None,
                    "is_this": is_this,
                    "leads": leader.startswith(f"{name}."),
                    "partitions": partitions,
                    "documents": own_documents if is_this else noted,
                    "since": format_rfc3339(note.since_ms) if note else None,
                    "reported": format_rfc3339(note.at_ms) if note else None,
                }
            )
        return {
            "age_seconds": round(known.age_seconds, 1),
            "described": known.described,
            "partitions": known.partitions,
            "lag": known.lag,
            "documents": documents,
            "workers": workers,
        }

    def _shards(self) -> list[JsonObject]:
        shards = self._parts.view.shards()
        sizes = self._sizes(shards)
        return [
            {
                "partition": partition,
                "state": _state_name(shard),
                "entries": shard.entries,
                "waiting": shard.waiting,
                "next_offset": shard.next_offset,
                "log_position": shard.log_position,
                "store_bytes": sizes.get(partition, 0),
                "remaining": shard.recovery_remaining,
                "recovered": self._recovered(partition, shard),
            }
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
                partition: bytes_under(shard_directory(directory, name, partition))
                for partition in shards
            }
        return self._store_bytes


def _state_name(shard: ShardState) -> str:
    if shard.is_open:
        return "ready"
    return "recovering" if shard.recovery_remaining else "opening"


def _throughput(samples: Sequence[Sample]) -> JsonObject:
    name = PREFIX + "documents_total"
    documents = rates(samples, name, lambda _: True)
    duplicates = rates(samples, name, lambda labels: labels[0] in _DUPLICATES)
    return {
        "sample_seconds": EVERY_SECONDS,
        "documents": [round(each, 2) for each in documents],
        "duplicates": [round(each, 2) for each in duplicates],
    }


def _latency(samples: Sequence[Sample]) -> JsonObject:
    last, first = samples[-1], since(samples, _LATELY_SECONDS)
    buckets = counts(PREFIX + "end_to_end_latency_seconds", last, first)
    quantiles = {name: quantile(buckets, share) for name, share in _QUANTILES.items()}
    return {
        "over_seconds": round(last.at - first.at, 1),
        "documents": int(sum(count for _, count in buckets)),
        **{name: None if value is None else round(value, 4) for name, value in quantiles.items()},
    }


def _candidates(samples: Sequence[Sample]) -> JsonObject:
    lookups, candidates = (
        samples[-1].total(name) - samples[0].total(name)
        for name in (f"{PREFIX}candidates_per_lookup_{each}" for each in ("count", "sum"))
    )
    mean = round(candidates / lookups, 2) if lookups else None
    return {"per_lookup": mean, "alert_above": CANDIDATES_ALERT}


def _process(samples: Sequence[Sample]) -> JsonObject:
    last, first = samples[-1], since(samples, _LATELY_SECONDS)
    seconds = last.at - first.at
    used = last.total(PROCESS_CPU) - first.total(PROCESS_CPU)
    return {
        "cpu_cores": round(used / seconds, 3) if seconds else None,
        "memory_bytes": int(last.total(PROCESS_MEMORY)),
    }


def _total(sample: Sample, name: str) -> int:
    return int(sample.total(PREFIX + name))


def _by_label(sample: Sample, name: str) -> dict[str, int]:
    return {labels[0]: int(value) for labels, value in sample.by_label(PREFIX + name).items()}
