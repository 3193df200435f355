"""The settings of Firstseen: one frozen tree, each setting with its limits and one line of help.

The annotations are the single source: the loader checks values against them; ``config show`` and
``docs/configuration.md`` print them. Names end in their unit. ``streams.settings.rules`` checks
several settings together; ``streams.settings.loader`` reads their sources.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta, field
from msgspec.structs import force_setattr, replace

from simhash_core.errors import UsageError
from simhash_core.text.profiles import (
    BLOCKS_INSTEAD_OF_BANDS,
    DEFAULT_PROFILE,
    Profile,
    profile_named,
)
from simhash_core.text.verification import WITH_BANDS, usual_threshold
from simhash_core.window import parse_duration
from streams.documents.fields import FieldSettings
from streams.settings.index import IndexSettings
from streams.settings.named_files import read_index_files
from streams.settings.registry import RegistrySettings

# ---- The flow of documents: how many are handled at once, and how many may wait.

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB


class BatchSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The maximum per step. Nothing waits for a batch to fill: a busy worker has full ones."""

    documents: Annotated[
        int,
        Meta(ge=1, le=10_000),
        Meta(
            description="Maximum raw records per fingerprint batch, which is one packet in the log."
        ),
    ] = 500
    packets: Annotated[
        int,
        Meta(ge=1, le=1_000),
        Meta(description="Maximum packets per report, control record and transaction."),
    ] = 8


class IntakeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How raw records of several partitions are ordered by their timestamps."""

    idle_ms: Annotated[
        int,
        Meta(ge=0, le=60_000),
        Meta(
            description="Wait for a partition with records that are not fetched yet, before "
            "later records of other partitions are taken. Milliseconds."
        ),
    ] = 200


class InFlightSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Raw records that a worker has read but not yet output; at the limit it stops reading."""

    documents: Annotated[
        int,
        Meta(ge=1, le=1_000_000),
        Meta(description="Raw records in flight at which a worker pauses reading."),
    ] = 4_000
    bytes: Annotated[
        int,
        Meta(ge=MIB, le=64 * GIB),
        Meta(description="Bytes of raw records in flight at which a worker pauses reading."),
    ] = 64 * MIB


# ---- The names of the topics.

_TOPIC: Final = "^[a-zA-Z0-9._-]{0,249}$"
_TOPIC_EXPECTED: Final = {"expected": "a topic name: 1 to 249 of the characters a-z A-Z 0-9 . _ -"}
_Topic = Annotated[str, Meta(pattern=_TOPIC, extra=_TOPIC_EXPECTED)]

_ONE_TOPIC_EXPECTED: Final = {
    "expected": "one topic name, no list and no pattern: 1 to 249 of the characters a-z A-Z 0-9 . "
    "_ - (several topics: docs/decisions/several-raw-topics.md)"
}


class TopicSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names of the topics; ``Settings`` fills in empty names of internal ones."""

    raw: Annotated[
        str, Meta(pattern=_TOPIC, extra=_ONE_TOPIC_EXPECTED, description="Input: the documents.")
    ] = "raw-documents"
    unique: Annotated[_Topic, Meta(description="Output: unique documents, unchanged.")] = "unique"
    duplicates: Annotated[
        _Topic, Meta(description="Output: duplicates, each naming its original.")
    ] = "duplicate-of"
    tagged: Annotated[
        _Topic,
        Meta(
            description="Output with mode=tag: all documents, unchanged, with the verdict in "
            "headers."
        ),
    ] = "tagged"
    dead_letters: Annotated[_Topic, Meta(description="Output: records that cannot be read.")] = (
        "dlq.raw-documents"
    )
    log: Annotated[
        str,
        Meta(pattern=_TOPIC, extra={**_TOPIC_EXPECTED, "default": "<application_id>.log"}),
        Meta(description="Internal: the order of all documents, and their verdicts."),
    ] = ""
    reports: Annotated[
        str,
        Meta(pattern=_TOPIC, extra={**_TOPIC_EXPECTED, "default": "<application_id>.reports"}),
        Meta(description="Internal: what the shards found, for the leader."),
    ] = ""
    changelog: Annotated[
        str,
        Meta(pattern=_TOPIC, extra={**_TOPIC_EXPECTED, "default": "<application_id>.changelog"}),
        Meta(description="Internal: the entries and the progress of each shard."),
    ] = ""


# ---- A worker's pages, and who may see them.
#
# Health and metrics hold figures; the ops page shows texts. So a worker that listens on more than
# the loopback has a token, or serves only its monitoring.

_EVERY_ADDRESS: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared, not listened on

_TOKEN: Final = "^[!-~]{16,256}$"  # noqa: S105 - what one looks like

_URL: Final = r"^https?://[!-~]+$"
_URL_CHARACTERS: Final = 300

_OPEN_TO_ALL: Final = (
    "beyond the loopback the pages need a token: set web.token_file (or web.token). Or set "
    "web.open_monitoring=true, which serves /healthz, /readyz and /metrics to all, and nothing "
    "else; or web.host=127.0.0.1"
)


class WebSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    enabled: Annotated[bool, Meta(description="Whether a worker serves its pages.")] = True
    host: Annotated[
        str,
        Meta(min_length=1, max_length=253),
        Meta(
            description="Address to listen on. Any address but the loopback needs web.token, "
            "web.token_file or web.open_monitoring."
        ),
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65_535, description="Port to listen on.")] = 6066
    url: Annotated[
        Annotated[str, Meta(pattern=_URL, max_length=_URL_CHARACTERS)] | None,
        Meta(
            extra={"expected": "a URL that begins with http:// or https://", "default": "none"},
            description="Address of this worker's page for links on other workers' pages. "
            "Without it, web.host and web.port, with the machine's name for a host such as "
            "0.0.0.0.",
        ),
    ] = None
    token: Annotated[
        Annotated[str, Meta(pattern=_TOKEN)] | None,
        Meta(extra={"expected": "16 to 256 characters, visible ASCII", "default": "none"}),
        Meta(description="Token that clients must send as 'Authorization: Bearer …'. Secret."),
    ] = None
    token_file: Annotated[
        str | None,
        Meta(extra={"expected": "a path", "default": "none"}),
        Meta(description="A file that holds the token, instead of web.token."),
    ] = None
    open_monitoring: Annotated[
        bool,
        Meta(
            description="Whether /healthz, /readyz and /metrics answer without the token. "
            "Without a token, a worker that does not listen on the loopback serves only these."
        ),
    ] = False
    recent_bytes: Annotated[
        int,
        Meta(ge=0, le=1024 * MIB),
        Meta(description="Memory for the texts that the ops page shows; 0: no texts."),
    ] = 16 * MIB

    def __repr__(self) -> str:
        shown = msgspec.structs.asdict(self) | {"token": self.token and "(set)"}
        return f"WebSettings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    @property
    def on_loopback(self) -> bool:
        return is_loopback(self.host)

    @property
    def page_url(self) -> str | None:
        """The address of this worker's page for others; None where it has none."""
        if not self.serves_data:
            return None
        if self.url is not None:
            return self.url
        host = self.host.strip("[]")
        if host in _EVERY_ADDRESS:
            host = socket.gethostname()
        return f"http://[{host}]:{self.port}/" if ":" in host else f"http://{host}:{self.port}/"

    @property
    def has_token(self) -> bool:
        return self.token is not None or self.token_file is not None

    @property
    def serves_data(self) -> bool:
        return self.enabled and (self.on_loopback or self.has_token)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each setting that does not fit the others, and what it must be."""
        if self.token is not None and self.token_file is not None:
            yield "token_file", "the token is given twice, by web.token as well: choose one"
        if self.enabled and not (self.on_loopback or self.has_token or self.open_monitoring):
            yield "host", _OPEN_TO_ALL


def is_loopback(host: str) -> bool:
    """Return whether a name or an address is this machine's loopback, without a look-up."""
    if host.rstrip(".").lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


MESSAGE_OVERHEAD_BYTES: Final = 256 * KIB
"""What a message may have beside its raw record: key, headers, fingerprint, framing."""

MATCH_BYTES: Final = 5 * KIB
"""The most that one document takes in an internal record: its id (``ID_BYTES_MAX``), the raw
topic's name, fingerprint, sketch and framing."""

INTERNAL_OVERHEAD_BYTES: Final = 2 * MIB
"""What an internal record may have beside documents, mainly the heads of all chains."""


class Delivery(StrEnum):
    AT_LEAST_ONCE = "at_least_once"  # an output may repeat after a crash, with the same content
    EXACTLY_ONCE = "exactly_once"
    """Every raw record ends in exactly one committed output; needs a broker with transactions."""


class Mode(StrEnum):
    SPLIT = "split"  # uniques on one topic, duplicates on another
    TAG = "tag"  # all documents on one topic, unchanged, with the verdict in headers


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class LogSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The log, on standard error. Texts of documents are never in it."""

    level: Annotated[LogLevel, Meta(description="Minimum severity of log lines.")] = LogLevel.INFO
    format: Annotated[LogFormat, Meta(description="Lines for people, or JSON objects.")] = (
        LogFormat.TEXT
    )


_DURATIONS: Final = frozenset({"window", "lateness"})


def _duration(setting: str, text: str) -> int:
    try:
        return parse_duration(text)
    except UsageError as error:
        raise UsageError(f"{setting}: {error}", setting=setting) from None


def default_state_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Return the XDG data directory of Firstseen; relative without a home or absolute variable."""
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
        str, Meta(min_length=1, max_length=4096, description="Kafka brokers, host:port,host:port.")
    ] = "127.0.0.1:9092"
    broker_wait_seconds: Annotated[
        Annotated[float, Meta(ge=0.1, le=86_400)] | None,
        Meta(extra={"default": "for ever, with a message every ten seconds"}),
        Meta(description="Time that a worker waits for a broker before it gives up."),
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
        Meta(ge=KIB, le=64 * MIB),
        Meta(description="Maximum size of a raw record; a larger one becomes a dead letter."),
    ] = MIB
    include_body: Annotated[
        bool, Meta(description="Whether a record on the duplicates topic carries the raw value.")
    ] = False
    output_retention_ms: Annotated[
        int,
        Meta(ge=-1, le=2**63 - 1, extra={"default": "-1, for ever"}),
        Meta(
            description="Retention of the output topics that 'firstseen topics create' makes, by "
            "the time of the raw record; -1: for ever."
        ),
    ] = -1
    session_timeout_seconds: Annotated[
        float,
        Meta(ge=1, le=300),
        Meta(
            description="Time without heartbeats after which the group moves a worker's "
            "partitions. It is the longest part of the stall after a crash. Brokers allow no "
            "less than group.min.session.timeout.ms (6 s)."
        ),
    ] = 6.0
    standbys: Annotated[
        int,
        Meta(ge=0, le=8),
        Meta(
            description="Workers that keep a copy of each shard besides its owner; 0: none. "
            "With copies the other workers continue when one is killed, and the new owner has the "
            "shard at once. Each copy costs the memory, disk and look-ups of a shard."
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
        float, Meta(ge=1, le=600, description="Longest wait for a send to be acknowledged.")
    ] = 30.0
    stall_seconds: Annotated[
        float,
        Meta(ge=1, le=86_400),
        Meta(
            description="Time without progress, while records wait, after which /healthz fails. "
            "It must be more than send_timeout_seconds."
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
        """Name unnamed internal topics after the application."""
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
        """Omit values of Kafka properties, as some are secret."""
        shown = msgspec.structs.asdict(self) | {"kafka": sorted(self.kafka)}
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def index_profile(self) -> Profile:
        """Return the profile with ``index``; raise ``UnknownNameError`` or ``UsageError``."""
        changes = {k: v for k, v in msgspec.structs.asdict(self.index).items() if v is not None}
        changes |= {name: _duration(name, changes[name]) for name in _DURATIONS & changes.keys()}
        profile = profile_named(self.profile)
        # Measures have different scales, so each needs its own threshold.
        if changes.get("verify", profile.verify) != profile.verify:
            changes = {"verify_at": usual_threshold(changes["verify"])} | changes
            if profile.bands and changes["verify"] != WITH_BANDS:
                changes = {**BLOCKS_INSTEAD_OF_BANDS, **changes}
        profile = replace(profile, **read_index_files(changes), scoped=bool(self.fields.scope))
        profile.scheme()
        return profile

    @property
    def output_topics(self) -> tuple[str, ...]:
        topics = self.topics
        if self.mode is Mode.TAG:
            return topics.tagged, topics.dead_letters
        return topics.unique, topics.duplicates, topics.dead_letters

    def state_path(self) -> Path:
        return self.state_dir / self.application_id

    @property
    def largest_output_bytes(self) -> int:
        """Key, value and headers on an output topic; JSON at most doubles a duplicate's body."""
        return self.max_record_bytes * (2 if self.include_body else 1) + MESSAGE_OVERHEAD_BYTES

    @property
    def largest_internal_bytes(self) -> int:
        """The limit in bytes of a record on an internal topic.

        The largest are a control record or a report where every document of ``batch.packets``
        packets is a duplicate, with the longest ids.
        """
        return self.batch.documents * self.batch.packets * MATCH_BYTES + INTERNAL_OVERHEAD_BYTES

    @property
    def largest_message_bytes(self) -> int:
        """The limit in bytes of key, value and headers of any record that is sent."""
        return max(self.largest_output_bytes, self.largest_internal_bytes)
