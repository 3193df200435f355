"""The status of a worker, as ``GET /api/status`` has it; docs/operations.md describes the form."""

from __future__ import annotations

from typing import Final

import msgspec

from streams.ops_page.recent_documents import Held

STATUS_SCHEMA: Final = "firstseen.status/2"


class Lag(msgspec.Struct, frozen=True):
    """Raw records of a partition that are not put out yet."""

    topic: str
    partition: int
    messages: int


class ShardStatus(msgspec.Struct, frozen=True):
    """One shard; see ``ShardState``.

    ``remaining``: changelog records still to be read. ``recovered``: the part of them that is read,
    0 to 1; None where nothing is known of it.
    """

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
    """The log, as this worker reads it; counters are those since the worker started.

    ``leader``: the name of the worker that leads, None where none is known. ``log_end``: as the
    broker last told. ``reports_missing``: the shards that the leader waits for, where this worker
    leads. ``packets_skipped``, ``control_records_refused``: read in the log, and out of their
    chains. ``foreign_records``: of another index identity.
    """

    leads: bool
    leader: str | None
    log_position: int
    log_end: int
    undecided_documents: int
    undecided_oldest_seconds: float
    reports_missing: list[int]
    packets_skipped: int
    control_records_refused: int
    foreign_records: int


class InFlight(msgspec.Struct, frozen=True):
    """Raw records read and not put out yet."""

    documents: int
    bytes: int


class Throughput(msgspec.Struct, frozen=True):
    """Documents a second, sample by sample, the oldest first."""

    sample_seconds: float
    documents: list[float]
    duplicates: list[float]


class Latency(msgspec.Struct, frozen=True):
    """Seconds from a record's time to its output, over the last ``over_seconds``."""

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
    """The whole. Counters are those since the worker started.

    ``fullest_bucket``: the most documents in one bucket that look-ups met in the last five minutes.
    """

    version: str
    application_id: str
    index: str
    profile: str
    delivery: str
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
    ordering: Ordering
    in_flight: InFlight
    shards: list[ShardStatus]
    fullest_bucket: int | None
    distances: Distances
    recent: Held
    schema: str = STATUS_SCHEMA
