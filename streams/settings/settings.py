"""The settings of Firstseen: one frozen tree, each setting with its limits and one line of help.

The annotations are the single source: the loader checks values against them, ``config show`` and
``docs/configuration.md`` print them. Names end in their unit. What several settings must be
together is in ``streams.settings.rules``; where values come from is in ``sources``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta, field
from msgspec.structs import force_setattr, replace

from simhash_core.durations import parse_duration
from simhash_core.errors import UsageError
from simhash_core.text.profiles import (
    BLOCKS_INSTEAD_OF_BANDS,
    DEFAULT_PROFILE,
    Profile,
    profile_named,
)
from simhash_core.text.verification import WITH_BANDS, usual_threshold
from streams.documents.fields import FieldSettings
from streams.settings.flow import GIB, KIB, MIB, BatchSettings, InFlightSettings, IntakeSettings
from streams.settings.index import IndexSettings
from streams.settings.index_files import read_index_files
from streams.settings.registry import RegistrySettings
from streams.settings.topics import TopicSettings
from streams.settings.web import WebSettings

MESSAGE_OVERHEAD_BYTES: Final = 256 * KIB
"""What a message may weigh beside the raw record in it: key, headers, fingerprint, framing."""

MATCH_BYTES: Final = 5 * KIB
"""What one document can take in an internal record: its id (``ID_BYTES_MAX``), the raw topic's
name, fingerprint, sketch and framing."""

INTERNAL_OVERHEAD_BYTES: Final = 2 * MIB
"""What an internal record can have beside documents: the heads of all chains, above all."""


class Delivery(StrEnum):
    """Guarantee for outputs after a crash."""

    AT_LEAST_ONCE = "at_least_once"
    """An output may repeat after a crash, with the same content."""
    EXACTLY_ONCE = "exactly_once"
    """Every raw record ends in exactly one committed output; needs a broker with transactions."""


class Mode(StrEnum):
    """Where documents are put out."""

    SPLIT = "split"
    """Uniques on one topic, and what repeats them on another."""
    TAG = "tag"
    """All documents on one topic, unchanged, with the verdict in headers."""


class LogLevel(StrEnum):
    """The lowest severity that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How a line of the log looks."""

    TEXT = "text"
    JSON = "json"


class LogSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The log, on standard error. Texts of documents are never in it."""

    level: Annotated[LogLevel, Meta(description="Minimum severity of log lines.")] = LogLevel.INFO
    format: Annotated[LogFormat, Meta(description="Lines for people, or JSON objects.")] = (
        LogFormat.TEXT
    )


_DURATIONS: Final = frozenset({"window", "lateness"})
"""Settings of the index that are durations."""


def _duration(setting: str, text: str) -> int:
    """Return milliseconds; raises ``UsageError`` with the setting."""
    try:
        return parse_duration(text)
    except UsageError as error:
        raise UsageError(f"{setting}: {error}", setting=setting) from None


def default_state_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Return ``$XDG_DATA_HOME/firstseen``, or ``~/.local/share/firstseen`` where that is not set.

    A relative path in the variable counts as none. Without a home, the result is relative.
    """
    environ = os.environ if environ is None else environ
    base = Path(environ.get("XDG_DATA_HOME", ""))
    if not base.is_absolute():
        base = Path(environ.get("HOME", "")) / ".local" / "share"
    return base / "firstseen"


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings. ``Settings()`` is the defaults; limits are checked where values are loaded."""

    application_id: Annotated[
        str,
        Meta(
            pattern="^[a-zA-Z0-9][a-zA-Z0-9._-]{0,199}$",
            extra={"expected": "1 to 200 of a-z A-Z 0-9 . _ -, the first a letter or a digit"},
            description="Names the consumer group, the internal topics and the state: keep it, or "
            "everything is read again.",
        ),
    ] = "firstseen"
    brokers: Annotated[
        str,
        Meta(min_length=1, max_length=4096, description="Kafka brokers, host:port,host:port."),
    ] = "127.0.0.1:9092"
    broker_wait_seconds: Annotated[
        Annotated[float, Meta(ge=0.1, le=86_400)] | None,
        Meta(
            extra={"default": "for ever, with a message every ten seconds"},
            description="Time that a worker waits for a broker before it gives up.",
        ),
    ] = None
    delivery: Annotated[Delivery, Meta(description="Guarantee for outputs after a crash.")] = (
        Delivery.EXACTLY_ONCE
    )
    mode: Annotated[
        Mode,
        Meta(
            description="Output topics: split uses topics.unique and topics.duplicates; tag "
            "sends all documents unchanged to topics.tagged, with the verdict in headers."
        ),
    ] = Mode.SPLIT
    profile: Annotated[
        str, Meta(min_length=1, description="What counts as near: wide, quick or classic.")
    ] = DEFAULT_PROFILE
    max_record_bytes: Annotated[
        int,
        Meta(
            ge=KIB,
            le=64 * MIB,
            description="Maximum size of a raw record; a larger one becomes a dead letter.",
        ),
    ] = MIB
    include_body: Annotated[
        bool, Meta(description="Whether a record on the duplicates topic carries the raw value.")
    ] = False
    output_retention_ms: Annotated[
        int,
        Meta(
            ge=-1,
            le=2**63 - 1,
            extra={"default": "-1, for ever"},
            description="Retention of the output topics that 'firstseen topics create' makes, by "
            "the time of the raw record; -1: for ever.",
        ),
    ] = -1
    session_timeout_seconds: Annotated[
        float,
        Meta(
            ge=1,
            le=300,
            description="Time without heartbeats after which the group moves a worker's "
            "partitions. It is the longest part of the stall after a crash. Brokers allow no "
            "less than group.min.session.timeout.ms (6 s).",
        ),
    ] = 6.0
    standbys: Annotated[
        int,
        Meta(
            ge=0,
            le=8,
            description="Workers that keep a copy of each shard besides its owner; 0: none. "
            "With copies the other workers continue when one is killed, and the new owner has the "
            "shard at once. Each copy costs the memory, disk and look-ups of a shard.",
        ),
    ] = 0
    group_instance_id: Annotated[
        Annotated[str, Meta(pattern="^[a-zA-Z0-9._-]{1,249}$")] | None,
        Meta(
            extra={
                "expected": "1 to 249 of a-z A-Z 0-9 . _ -, or left out",
                "default": "none: partitions move as soon as a worker leaves",
            },
            description="Static membership: a worker that restarts within session_timeout_seconds "
            "keeps its partitions. A different id for each worker.",
        ),
    ] = None
    send_timeout_seconds: Annotated[
        float,
        Meta(ge=1, le=600, description="Longest wait for a send to be acknowledged."),
    ] = 30.0
    stall_seconds: Annotated[
        float,
        Meta(
            ge=1,
            le=86_400,
            description="Time without progress, while records wait, after which /healthz fails. "
            "It must be more than send_timeout_seconds.",
        ),
    ] = 120.0
    state_dir: Annotated[
        Path,
        Meta(
            extra={
                "expected": "a path",
                "default": "$XDG_DATA_HOME/firstseen or ~/.local/share/firstseen",
            },
            description="Directory of the state, with a subdirectory for each application id.",
        ),
    ] = field(default_factory=default_state_dir)
    block_cache_bytes: Annotated[
        int,
        Meta(ge=MIB, le=1024 * GIB, description="Memory for RocksDB's block cache of one worker."),
    ] = 256 * MIB
    topics: TopicSettings = field(default_factory=TopicSettings)
    index: IndexSettings = field(default_factory=IndexSettings)
    fields: FieldSettings = field(default_factory=FieldSettings)
    registry: RegistrySettings = field(default_factory=RegistrySettings)
    batch: BatchSettings = field(default_factory=BatchSettings)
    intake: IntakeSettings = field(default_factory=IntakeSettings)
    in_flight: InFlightSettings = field(default_factory=InFlightSettings)
    web: WebSettings = field(default_factory=WebSettings)
    log: LogSettings = field(default_factory=LogSettings)
    kafka: Annotated[
        Mapping[str, str],
        Meta(description="Properties passed on to the Kafka clients, by librdkafka's names."),
    ] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Name the internal topics after the application where they have no name."""
        brokers = [broker.strip() for broker in self.brokers.split(",")]
        force_setattr(self, "brokers", ",".join(filter(None, brokers)))
        topics = replace(
            self.topics,
            log=self.topics.log or f"{self.application_id}.log",
            reports=self.topics.reports or f"{self.application_id}.reports",
            changelog=self.topics.changelog or f"{self.application_id}.changelog",
        )
        force_setattr(self, "topics", topics)

    def __repr__(self) -> str:
        """Every setting, but of the Kafka properties the names alone: some are secret."""
        shown = msgspec.structs.asdict(self) | {"kafka": sorted(self.kafka)}
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def index_profile(self) -> Profile:
        """Return the profile with the changes of ``index``.

        Raises ``UnknownNameError`` for a name that is none, ``UsageError`` for widths that do not
        fit each other.
        """
        changes = {k: v for k, v in msgspec.structs.asdict(self.index).items() if v is not None}
        changes |= {name: _duration(name, changes[name]) for name in _DURATIONS & changes.keys()}
        profile = profile_named(self.profile)
        # Agreements of two measures are no one scale: another measure has a threshold of its own.
        if changes.get("verify", profile.verify) != profile.verify:
            changes = {"verify_at": usual_threshold(changes["verify"])} | changes
            if profile.bands and changes["verify"] != WITH_BANDS:
                changes = {**BLOCKS_INSTEAD_OF_BANDS, **changes}
        profile = replace(profile, **read_index_files(changes), scoped=bool(self.fields.scope))
        profile.scheme()
        return profile

    @property
    def output_topics(self) -> tuple[str, ...]:
        """The topics that records are put out on, by ``mode``; dead letters last."""
        topics = self.topics
        if self.mode is Mode.TAG:
            return topics.tagged, topics.dead_letters
        return topics.unique, topics.duplicates, topics.dead_letters

    def state_path(self) -> Path:
        """Return the directory of this application's state."""
        return self.state_dir / self.application_id

    @property
    def largest_output_bytes(self) -> int:
        """The limit in bytes of key, value and headers of a record on an output topic.

        A body in a duplicate's JSON has at most twice its bytes.
        """
        return self.max_record_bytes * (2 if self.include_body else 1) + MESSAGE_OVERHEAD_BYTES

    @property
    def largest_internal_bytes(self) -> int:
        """The limit in bytes of a record on an internal topic.

        Largest are a control record and a report, where every document of ``batch.packets`` packets
        is a duplicate, and ids are as long as they may be.
        """
        return self.batch.documents * self.batch.packets * MATCH_BYTES + INTERNAL_OVERHEAD_BYTES

    @property
    def largest_message_bytes(self) -> int:
        """The limit in bytes of key, value and headers of any record that is sent."""
        return max(self.largest_output_bytes, self.largest_internal_bytes)
