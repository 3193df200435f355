"""The status of a worker, as ``GET /api/status`` has it; docs/operations.md describes the form."""

from __future__ import annotations

from typing import Final

import msgspec

from streams.ops_page.recent_documents import Held

STATUS_SCHEMA: Final = "firstseen.status/3"


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
    broker last said. ``reports_missing``: the shards that the leader waits for, where this worker
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
    """Raw records that were read but have no output yet."""

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
    """Distances of duplicates to their originals, since the worker started.

    ``counts``: of duplicates, by distance from 0 to ``near`` bits, one by one. ``beyond``: of exact
    ones whose fingerprint is further away.
    """

    bits: int
    near: int
    counts: list[int]
    beyond: int


class Candidates(msgspec.Struct, frozen=True):
    """What look-ups read, over the last five minutes.

    ``per_lookup``: candidates of a document, on average; None without look-ups. ``fullest_bucket``:
    documents in the fullest bucket that was sampled. ``alert_above``: the candidates above which
    look-ups slow the worker down, and CandidateExplosion fires.
    """

    per_lookup: float | None
    fullest_bucket: int | None
    alert_above: int


class Process(msgspec.Struct, frozen=True):
    """The process: CPU cores in use over the last minute, and memory."""

    cpu_cores: float | None
    memory_bytes: int


class Troubles(msgspec.Struct, frozen=True):
    """What went wrong since the worker started.

    ``errors``: failures by ``step/reason``. ``dead_letters``: records by reason. ``skipped``: raw
    records that were deleted before they were read. ``transactions``: by outcome.
    """

    errors: dict[str, int]
    dead_letters: dict[str, int]
    skipped: int
    rebalances: int
    transactions: dict[str, int]


class GroupWorker(msgspec.Struct, frozen=True):
    """One worker of the group, as its last commit and the broker say.

    ``documents``: that it put out since ``since``, by verdict, up to ``reported``; None before its
    first commit. ``page``: where its ops page is; None where it has none.
    """

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
    """The whole group, as the broker knew it ``age_seconds`` ago.

    ``described``: whether the broker named the members; else they are known by their commits alone,
    and some may have gone. ``lag``: raw records that the group has not committed, of all
    partitions; None where the broker did not say. ``documents``: the sum of the workers'.
    """

    age_seconds: float
    described: bool
    partitions: int
    lag: int | None
    documents: dict[str, int]
    workers: list[GroupWorker]


class ThisWorker(msgspec.Struct, frozen=True):
    """Whose status it is: the name in the group, and the name of the machine."""

    name: str
    host: str
    started: str


class Status(msgspec.Struct, frozen=True):
    """The whole. Counters are those of this worker since it started; ``group`` has all workers.

    ``group``: None until the broker has answered, some seconds after the first request.
    """

    worker: ThisWorker
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
    candidates: Candidates
    distances: Distances
    process: Process
    troubles: Troubles
    group: Group | None
    recent: Held
    schema: str = STATUS_SCHEMA
