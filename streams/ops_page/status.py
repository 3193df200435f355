"""What a worker does now: its status, put together from its parts and its metrics."""

from __future__ import annotations

import contextlib
import math
import os
import socket
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

from simhash_core.text.profiles import Profile
from streams.documents.timestamps import format_rfc3339
from streams.monitoring import metric_definitions as defined
from streams.monitoring import state_definitions as state
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
from streams.ops_page.fullest_buckets import FullestBuckets
from streams.ops_page.recent_documents import RecentDocuments
from streams.ops_page.status_form import (
    Candidates,
    Distances,
    Group,
    GroupWorker,
    InFlight,
    Lag,
    Latency,
    Ordering,
    Process,
    ShardStatus,
    Status,
    ThisWorker,
    Throughput,
    Troubles,
)
from streams.settings.settings import Settings
from streams.store.shard_directory import shard_directory

CANDIDATES_ALERT: Final = 1000
"""As in the alert CandidateExplosion; a test holds both to one figure."""

_MILLISECONDS: Final = 1000
_LATELY_SECONDS: Final = 60.0
_STORE_SECONDS: Final = 10.0
_DUPLICATES: Final = frozenset({"near_duplicate", "exact_duplicate"})
_QUANTILES: Final[Mapping[str, float]] = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


class Monitored(NamedTuple):
    """The parts of a worker that its pages show; all may be read from any thread.

    ``name``: of the worker, in the group.
    """

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
    """Puts the status of one worker together."""

    def __init__(self, settings: Settings, parts: Monitored) -> None:
        """Begin to take samples, whenever ``tick`` is called."""
        self._settings = settings
        self._parts = parts
        self._history = MetricHistory(parts.metrics)
        self._started = time.monotonic()
        self._started_ms = int(time.time() * _MILLISECONDS)
        self._store_bytes: dict[int, int] = {}
        self._measured = -math.inf
        self._to_recover: dict[int, int] = {}

    def tick(self) -> None:
        """Take a sample where it is time to; from one thread."""
        self._history.take()

    def status(self) -> Status:
        """Return the present state."""
        parts, samples = self._parts, self._history.samples()
        last = samples[-1]
        documents = _by_label(last, defined.DOCUMENTS.name)
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
            broker_up=bool(last.total(defined.BROKER_UP.name)),
            disk_free_bytes=int(last.total(state.STATE_DISK_FREE.name)),
            disk_size_bytes=int(last.total(state.STATE_DISK_SIZE.name)),
            documents=documents,
            throughput=_throughput(samples),
            latency=_latency(samples),
            lag=[
                Lag(topic, int(partition), int(messages))
                for (topic, partition), messages in sorted(
                    last.by_label(defined.CONSUMER_LAG.name).items()
                )
            ],
            ordering=_ordering(last, parts.view),
            in_flight=InFlight(
                documents=int(last.total(defined.IN_FLIGHT_DOCUMENTS.name)),
                bytes=int(last.total(defined.IN_FLIGHT_BYTES.name)),
            ),
            shards=self._shards(),
            candidates=_candidates(samples, parts.fullest.fullest()),
            distances=_distances(parts.metrics, parts.profile),
            process=_process(samples),
            troubles=_troubles(last),
            group=self._group(documents),
            recent=parts.recent.held(),
        )

    def _group(self, own_documents: dict[str, int]) -> Group | None:
        """Return the group; this worker's own figures are as fresh as the rest of the page."""
        name, view, known = self._parts.name, self._parts.view, self._parts.group.group()
        if known is None:
            return None
        workers = [
            GroupWorker(
                name=each.name,
                host=each.host,
                page=(each.note.page or None) if each.note else None,
                is_this=each.name == name,
                leads=(view.leader or "").startswith(f"{each.name}."),
                partitions=list(each.partitions),
                documents=own_documents
                if each.name == name
                else each.note.documents
                if each.note
                else None,
                since=format_rfc3339(each.note.since_ms) if each.note else None,
                reported=format_rfc3339(each.note.at_ms) if each.note else None,
            )
            for each in known.workers
        ]
        documents = Counter(own_documents)
        for each in workers:
            if not each.is_this:
                documents.update(each.documents or {})
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
        """Return the part of a changelog that is read, of what remained when first seen."""
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
        log_position=int(last.total(defined.LOG_POSITION.name)),
        log_end=int(last.total(defined.LOG_END.name)),
        undecided_documents=int(last.total(defined.UNDECIDED_DOCUMENTS.name)),
        undecided_oldest_seconds=round(last.total(defined.UNDECIDED_AGE.name), 3),
        reports_missing=sorted(int(p) for (p,) in last.by_label(defined.REPORT_MISSING.name)),
        packets_skipped=int(last.total(defined.PACKETS_SKIPPED.name)),
        control_records_refused=int(last.total(defined.CONTROL_REFUSED.name)),
        foreign_records=int(last.total(defined.FOREIGN_RECORDS.name)),
    )


def _throughput(samples: Sequence[Sample]) -> Throughput:
    name = defined.DOCUMENTS.name
    return Throughput(
        sample_seconds=EVERY_SECONDS,
        documents=[round(rate, 2) for rate in rates(samples, name, lambda _: True)],
        duplicates=[
            round(rate, 2) for rate in rates(samples, name, lambda labels: labels[0] in _DUPLICATES)
        ],
    )


def _latency(samples: Sequence[Sample]) -> Latency:
    last, first = samples[-1], since(samples, _LATELY_SECONDS)
    buckets = counts(defined.LATENCY.name, last, first)
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
    name = defined.CANDIDATES.name
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


def _troubles(last: Sample) -> Troubles:
    errors = last.by_label(defined.ERRORS.name)
    dead_letters = _by_label(last, defined.DEAD_LETTERS.name)
    return Troubles(
        errors={"/".join(labels): int(count) for labels, count in errors.items() if count},
        dead_letters={reason: count for reason, count in dead_letters.items() if count},
        skipped=int(last.total(defined.SKIPPED.name)),
        rebalances=int(last.total(defined.REBALANCES.name)),
        transactions=_by_label(last, defined.TRANSACTIONS.name),
    )


def _by_label(sample: Sample, name: str) -> dict[str, int]:
    """Return the values of a family with one label."""
    return {labels[0]: int(value) for labels, value in sample.by_label(name).items()}


def _bytes_under(directory: Path) -> int:
    """Return the bytes of the files of a directory and those below; files may come and go."""
    total = 0
    with contextlib.suppress(OSError):
        for path, _, files in os.walk(directory):
            for file in files:
                with contextlib.suppress(OSError):
                    total += (Path(path) / file).stat().st_size
    return total
