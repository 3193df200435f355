"""The settings of Firstseen: one frozen tree, each setting with its limits.

The annotations are the single source of types, limits and defaults; the loader checks values
against them. ``texts.toml`` describes each setting; ``docs/configuration.md`` has both. Names
end in their unit. ``streams.settings.rules`` checks settings that depend on each other;
``streams.settings.loader`` reads their sources.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, Literal

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
from streams.settings.named_files import read_index_files
from streams.settings.registry import RegistrySettings, masked_repr

# ---- The flow of documents: how many are handled together, and how many may wait.

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB


class BatchSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The maximum per step. No step waits until a batch is full; a busy worker's batches are."""

    documents: Annotated[int, Meta(ge=1, le=10_000)] = 500
    bundles: Annotated[int, Meta(ge=1, le=1_000)] = 8


class IntakeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How raw records of several partitions are ordered by their timestamps."""

    idle_ms: Annotated[int, Meta(ge=0, le=60_000)] = 200


class InFlightSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Raw records that a worker has read but not yet output; at the limit it stops reading."""

    documents: Annotated[int, Meta(ge=1, le=1_000_000)] = 4_000
    bytes: Annotated[int, Meta(ge=MIB, le=64 * GIB)] = 64 * MIB


# ---- The names of the topics.

_Topic = Annotated[str, Meta(pattern="^[a-zA-Z0-9._-]{0,249}$")]


class TopicSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names of the topics; ``Settings`` fills in empty names of internal ones."""

    raw: _Topic = "raw-documents"
    unique: _Topic = "unique"
    duplicates: _Topic = "duplicate-of"
    tagged: _Topic = "tagged"
    dead_letters: _Topic = "dlq.raw-documents"
    log: _Topic = ""
    reports: _Topic = ""
    changelog: _Topic = ""


# ---- The index.


class IndexSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes to the profile, and so to the index identity; None keeps the profile's value."""

    bits: Annotated[int, Meta(ge=64, le=512)] | None = None
    blocks: Annotated[int, Meta(ge=0, le=128)] | None = None
    block_bits: Annotated[int, Meta(ge=0, le=32)] | None = None
    distance: Annotated[int, Meta(ge=0, le=511)] | None = None
    segmenter: str | None = None
    weighting: str | None = None
    feature_hash: str | None = None
    min_features: Annotated[int, Meta(ge=1, le=1000)] | None = None
    long_characters: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    cuts: Annotated[int, Meta(ge=1, le=2)] | None = None
    bands: Annotated[int, Meta(ge=0, le=64)] | None = None
    band_bins: Annotated[int, Meta(ge=2, le=3)] | None = None
    fingerprint: Literal["terms", "shingles"] | None = None
    verify: str | None = None
    verify_at: Annotated[float, Meta(ge=0, le=1)] | None = None
    mean_at: Annotated[float, Meta(ge=0, le=1)] | None = None
    idf: str | None = None
    user_dictionary: str | None = None
    stop_words: str | None = None
    window: str | None = None
    lateness: str | None = None
    fold_traditional: bool | None = None
    short_texts: Literal["exact", "pass"] | None = None
    same_id: Literal["compare", "replace"] | None = None

    def changed(self, profile: str, *, scoped: bool) -> Profile:
        """Return a profile with these changes; raise ``UnknownNameError`` or ``UsageError``."""
        changes = {k: v for k, v in msgspec.structs.asdict(self).items() if v is not None}
        for name in {"window", "lateness"} & changes.keys():
            try:
                changes[name] = parse_duration(changes[name])
            except UsageError as error:
                raise UsageError(f"{name}: {error}", setting=name) from None
        named = profile_named(profile)
        # Measures have different scales, so each needs its own threshold.
        if changes.get("verify", named.verify) != named.verify:
            usual = {"verify_at": usual_threshold(changes["verify"]), "mean_at": 0.0}
            changes = usual | changes
            if named.bands and changes["verify"] != WITH_BANDS:
                changes = {**BLOCKS_INSTEAD_OF_BANDS, **changes}
        changed = replace(named, **read_index_files(changes), scoped=scoped)
        changed.scheme()
        if "band_bins" in changes and not changed.bands:
            raise UsageError(
                "band_bins has no effect, because the index has no bands",
                setting="band_bins",
                hint="set bands, or choose profile wide or quick",
            )
        return changed


# ---- A worker's pages, and who may see them.
#
# Health and metrics contain figures, but the ops page shows texts. So a worker that listens on more
# than the loopback must have a token, or serve only its monitoring.

_EVERY_ADDRESS: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared, not listened on

_TOKEN: Final = "^[!-~]{16,256}$"  # noqa: S105 - what one looks like

_URL: Final = r"^https?://[!-~]+$"
_URL_CHARACTERS: Final = 300

_OPEN_TO_ALL: Final = (
    "beyond the loopback the pages need a token: set web.token_file (or web.token). Or set "
    "web.open_monitoring=true, which serves only /healthz, /readyz and /metrics, to everyone; or "
    "web.host=127.0.0.1"
)


class WebSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    enabled: bool = True
    host: Annotated[str, Meta(min_length=1, max_length=253)] = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65_535)] = 6066
    url: Annotated[str, Meta(pattern=_URL, max_length=_URL_CHARACTERS)] | None = None
    token: Annotated[str, Meta(pattern=_TOKEN)] | None = None
    token_file: str | None = None
    open_monitoring: bool = False
    recent_bytes: Annotated[int, Meta(ge=0, le=1024 * MIB)] = 16 * MIB

    def __repr__(self) -> str:
        return masked_repr(self, "token")

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
        return http_url(socket.gethostname() if host in _EVERY_ADDRESS else host, self.port)

    @property
    def has_token(self) -> bool:
        return self.token is not None or self.token_file is not None

    @property
    def serves_data(self) -> bool:
        return self.enabled and (self.on_loopback or self.has_token)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each setting that does not fit the others, and what it must be."""
        if self.token is not None and self.token_file is not None:
            yield "web.token_file", "web.token is given too: choose one"
        if self.enabled and not (self.on_loopback or self.has_token or self.open_monitoring):
            yield "web.host", _OPEN_TO_ALL


def http_url(host: str, port: int) -> str:
    """Return an address as a URL, an IPv6 address in brackets."""
    host = host.strip("[]")
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def is_loopback(host: str) -> bool:
    """Return whether a name or an address is this machine's loopback, without a look-up."""
    if host.rstrip(".").lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


MESSAGE_OVERHEAD_BYTES: Final = 256 * KIB
"""Bytes that a message may have beside its raw record: key, headers, fingerprint, framing."""

MATCH_BYTES: Final = 5 * KIB
"""The most bytes that one document takes in an internal record: its id (``ID_BYTES_MAX``), the
raw topic's name, fingerprint, sketch and framing."""

INTERNAL_OVERHEAD_BYTES: Final = 2 * MIB
"""Bytes that an internal record may have beside documents, mainly the heads of all chains."""


_LEAVE_SECONDS: Final = 8.0  # the time that a worker may take to leave its group
HAND_OVER_SECONDS: Final = 10.0
"""How long a worker that has left its group waits until others have opened its shards."""


class Delivery(StrEnum):
    AT_LEAST_ONCE = "at_least_once"  # an output may repeat after a crash, with the same content
    EXACTLY_ONCE = "exactly_once"
    """Every raw record ends in exactly one committed output; needs a broker with transactions."""


class GroupProtocol(StrEnum):
    CLASSIC = "classic"
    CONSUMER = "consumer"  # KIP-848: the broker assigns the partitions


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


class TraceExport(StrEnum):
    OFF = "off"
    OTLP = "otlp"
    CONSOLE = "console"


class LogSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The log on standard error; it never has texts of documents."""

    level: LogLevel = LogLevel.INFO
    format: LogFormat = LogFormat.TEXT


def default_state_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Return the XDG data directory of Firstseen; relative without a home or absolute variable."""
    environ = os.environ if environ is None else environ
    base = Path(environ.get("XDG_DATA_HOME", ""))
    if not base.is_absolute():
        base = Path(environ.get("HOME", "")) / ".local" / "share"
    return base / "firstseen"


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings. ``Settings()`` has the defaults; the loader checks limits."""

    application_id: Annotated[str, Meta(pattern="^[a-zA-Z0-9][a-zA-Z0-9._-]{0,199}$")] = "firstseen"
    brokers: Annotated[str, Meta(min_length=1, max_length=4096)] = "127.0.0.1:9092"
    broker_wait_seconds: Annotated[float, Meta(ge=0.1, le=86_400)] | None = None
    delivery: Delivery = Delivery.EXACTLY_ONCE
    mode: Mode = Mode.SPLIT
    profile: Annotated[str, Meta(min_length=1)] = DEFAULT_PROFILE
    max_record_bytes: Annotated[int, Meta(ge=KIB, le=64 * MIB)] = MIB
    dead_letter_bytes: Annotated[int, Meta(ge=0, le=512 * MIB)] | None = None
    include_body: bool = False
    shared_outputs: bool = False
    output_retention_ms: Annotated[int, Meta(ge=-1, le=2**63 - 1)] = -1
    session_timeout_seconds: Annotated[float, Meta(ge=1, le=300)] = 6.0
    group_protocol: GroupProtocol = GroupProtocol.CLASSIC
    standbys: Annotated[int, Meta(ge=0, le=8)] = 0
    group_instance_id: Annotated[str, Meta(pattern="^[a-zA-Z0-9._-]{1,249}$")] | None = None
    send_timeout_seconds: Annotated[float, Meta(ge=1, le=600)] = 30.0
    stall_seconds: Annotated[float, Meta(ge=1, le=86_400)] = 120.0
    state_dir: Path = field(default_factory=default_state_dir)
    block_cache_bytes: Annotated[int, Meta(ge=MIB, le=1024 * GIB)] = 256 * MIB
    topics: TopicSettings = field(default_factory=TopicSettings)
    index: IndexSettings = field(default_factory=IndexSettings)
    fields: FieldSettings = field(default_factory=FieldSettings)
    registry: RegistrySettings = field(default_factory=RegistrySettings)
    batch: BatchSettings = field(default_factory=BatchSettings)
    intake: IntakeSettings = field(default_factory=IntakeSettings)
    in_flight: InFlightSettings = field(default_factory=InFlightSettings)
    web: WebSettings = field(default_factory=WebSettings)
    log: LogSettings = field(default_factory=LogSettings)
    traces: TraceExport = TraceExport.OFF
    kafka: Mapping[str, str] = field(default_factory=dict)

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
        """Omit the values of Kafka properties, because some are secret."""
        shown = msgspec.structs.asdict(self) | {"kafka": sorted(self.kafka)}
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def index_profile(self) -> Profile:
        """Return the profile with ``index``; raise ``UnknownNameError`` or ``UsageError``."""
        return self.index.changed(self.profile, scoped=bool(self.fields.scope))

    @property
    def output_topics(self) -> tuple[str, ...]:
        topics = self.topics
        if self.mode is Mode.TAG:
            return topics.tagged, topics.dead_letters
        return topics.unique, topics.duplicates, topics.dead_letters

    def state_path(self) -> Path:
        return self.state_dir / self.application_id

    @property
    def stop_seconds(self) -> float:
        """The longest that a worker takes to end: a commit may take the whole send time-out."""
        return self.send_timeout_seconds + _LEAVE_SECONDS + HAND_OVER_SECONDS

    @property
    def largest_output_bytes(self) -> int:
        """The limit in bytes of an output record; JSON at most doubles a duplicate's body."""
        return self.max_record_bytes * (2 if self.include_body else 1) + MESSAGE_OVERHEAD_BYTES

    @property
    def largest_dead_letter_bytes(self) -> int:
        return max(
            self.largest_output_bytes, (self.dead_letter_bytes or 0) + MESSAGE_OVERHEAD_BYTES
        )

    @property
    def largest_internal_bytes(self) -> int:
        """The limit in bytes of a record on an internal topic.

        The largest are a control record or a report where every document of ``batch.bundles``
        full bundles is a duplicate, with the longest ids.
        """
        return self.batch.documents * self.batch.bundles * MATCH_BYTES + INTERNAL_OVERHEAD_BYTES

    @property
    def largest_message_bytes(self) -> int:
        """The limit in bytes of key, value and headers of any record that is sent."""
        return max(self.largest_dead_letter_bytes, self.largest_internal_bytes)
