"""What a worker does now, as ``GET /api/status`` tells it; docs/operations.md has the form."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from simhash_core.profiles import Profile
from streams import metric_definitions as defined
from streams.health import Health
from streams.metrics import IndexInfo
from streams.ops_page.fullest_buckets import FullestBuckets
from streams.ops_page.metric_history import (
    EVERY_SECONDS,
    MetricHistory,
    Sample,
    counts,
    quantile,
    rates,
    since,
)
from streams.ops_page.recent_documents import Held, RecentDocuments
from streams.pipeline import Pipeline
from streams.recovery_progress import Recovery
from streams.settings import Settings
from streams.shard_directory import shard_directory

STATUS_SCHEMA: Final = "firstseen.status/1"

_LATELY_SECONDS: Final = 60.0
_STORE_SECONDS: Final = 10.0
_DUPLICATES: Final = frozenset({"near_duplicate", "exact_duplicate"})
_QUANTILES: Final[Mapping[str, float]] = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


class Monitored(NamedTuple):
    """The parts of a worker that the page looks at; all may be read from any thread."""

    pipeline: Pipeline
    health: Health
    recent: RecentDocuments
    fullest: FullestBuckets
    recoveries: Callable[[], Mapping[int, Recovery]]
    index_info: IndexInfo
    profile: Profile


class Lag(msgspec.Struct, frozen=True):
    """Messages of a partition that this worker has yet to handle."""

    topic: str
    partition: int
    messages: int


class ShardStatus(msgspec.Struct, frozen=True):
    """One shard. ``recovered`` is from 0 to 1; None where nothing is known of it (yet)."""

    partition: int
    state: str
    entries: int
    pending: int
    parked: int
    next_offset: int
    store_bytes: int
    fullest_bucket: int | None
    remaining: int
    recovered: float | None


class Throughput(msgspec.Struct, frozen=True):
    """Documents a second, sample by sample, the oldest first."""

    sample_seconds: float
    documents: list[float]
    duplicates: list[float]


class Latency(msgspec.Struct, frozen=True):
    """Seconds from a record's time to its verdict, over the last ``over_seconds``."""

    over_seconds: float
    documents: int
    p50: float | None
    p95: float | None
    p99: float | None


class Distances(msgspec.Struct, frozen=True):
    """Distances of duplicates since the worker started: ``[most bits, duplicates]`` a bin."""

    bits: int
    near: int
    bins: list[tuple[int | None, int]]


class Status(msgspec.Struct, frozen=True):
    """The whole. Counters are those since the worker started."""

    version: str
    application_id: str
    index: str
    profile: str
    delivery: str
    shards_of_index: int
    uptime_seconds: float
    why_dead: str | None
    why_not_ready: str | None
    broker_up: bool
    disk_free_bytes: int
    disk_size_bytes: int
    documents: dict[str, int]
    throughput: Throughput
    latency: Latency
    lag: list[Lag]
    shards: list[ShardStatus]
    distances: Distances
    recent: Held
    schema: str = STATUS_SCHEMA


class StatusReport:
    """Puts the status of one worker together."""

    def __init__(self, settings: Settings, parts: Monitored) -> None:
        """Begin to take samples, whenever ``tick`` is called."""
        self._settings = settings
        self._parts = parts
        self._history = MetricHistory(parts.pipeline.metrics)
        self._started = time.monotonic()
        self._store_bytes: dict[int, int] = {}
        self._measured = -math.inf

    def tick(self) -> None:
        """Take a sample where it is time to; from one thread."""
        self._history.take()

    def status(self) -> Status:
        """Return what is known now."""
        parts, samples = self._parts, self._history.samples()
        last = samples[-1]
        documents = last.by_label(defined.DOCUMENTS.name)
        return Status(
            version=version("firstseen"),
            application_id=parts.index_info.application_id,
            index=parts.index_info.identity,
            profile=parts.index_info.profile,
            delivery=parts.index_info.delivery,
            shards_of_index=parts.index_info.shards,
            uptime_seconds=round(time.monotonic() - self._started, 1),
            why_dead=parts.health.why_dead(),
            why_not_ready=parts.pipeline.why_not_ready(),
            broker_up=bool(last.total(defined.BROKER_UP.name)),
            disk_free_bytes=int(last.total(defined.STATE_DISK_FREE.name)),
            disk_size_bytes=int(last.total(defined.STATE_DISK_SIZE.name)),
            documents={labels[0]: int(value) for labels, value in documents.items()},
            throughput=_throughput(samples),
            latency=_latency(samples),
            lag=[
                Lag(topic, int(partition), int(messages))
                for (topic, partition), messages in sorted(
                    last.by_label(defined.CONSUMER_LAG.name).items()
                )
            ],
            shards=self._shards(),
            distances=_distances(last, parts.profile),
            recent=parts.recent.held(),
        )

    def _shards(self) -> list[ShardStatus]:
        shards = self._parts.pipeline.shards()
        recoveries = self._parts.recoveries()
        fullest = self._parts.fullest.by_shard()
        sizes = self._sizes(shards)
        found = []
        for partition, (state, opening) in shards.items():
            recovery = recoveries.get(partition) if opening else None
            name = "ready" if state.is_open else "opening"
            if recovery is not None and recovery.remaining:
                name = "recovering"
            found.append(
                ShardStatus(
                    partition=partition,
                    state=name,
                    entries=state.entries,
                    pending=state.pending,
                    parked=state.parked,
                    next_offset=state.next_offset,
                    store_bytes=sizes.get(partition, 0),
                    fullest_bucket=fullest.get(partition),
                    remaining=0 if recovery is None else recovery.remaining,
                    recovered=None if recovery is None else recovery.share_done,
                )
            )
        return found

    def _sizes(self, shards: Iterable[int]) -> Mapping[int, int]:
        """Return the bytes of each shard's directory, looked at every ten seconds."""
        if time.monotonic() - self._measured > _STORE_SECONDS:
            self._measured = time.monotonic()
            directory, name = self._settings.state_dir, self._settings.application_id
            self._store_bytes = {
                partition: _bytes_under(shard_directory(directory, name, partition))
                for partition in shards
            }
        return self._store_bytes


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
    found = {name: quantile(buckets, share) for name, share in _QUANTILES.items()}
    return Latency(
        over_seconds=round(last.at - first.at, 1),
        documents=int(sum(count for _, count in buckets)),
        **{name: None if value is None else round(value, 4) for name, value in found.items()},
    )


def _distances(last: Sample, profile: Profile) -> Distances:
    bins = [
        (None if math.isinf(bound) else int(bound), int(count))
        for bound, count in counts(defined.DISTANCE.name, last)
    ]
    return Distances(bits=profile.bits, near=profile.distance, bins=bins)


def _bytes_under(directory: Path) -> int:
    """Return the bytes of the files of a directory and those below; files may come and go."""
    total = 0
    with contextlib.suppress(OSError):
        for path, _, files in os.walk(directory):
            for file in files:
                with contextlib.suppress(OSError):
                    total += (Path(path) / file).stat().st_size
    return total
