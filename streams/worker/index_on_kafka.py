"""What a worker reads from Kafka about its index, apart from documents."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct
import time
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import ClassVar, Final, NamedTuple

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from simhash_core.documents import SourcePosition
from simhash_core.documents import TopicPartition as Partition
from simhash_core.errors import FirstseenError
from simhash_core.log.records import LogClock
from streams.documents.output_records import APPLICATION_HEADER, VERDICT_HEADER
from streams.errors import BrokerRefusedError, BrokerUnavailableError, StateMismatchError
from streams.kafka.client_config import changelog_group, client_config, output_config
from streams.kafka.clients import (
    AdminClient,
    Consumer,
    committed_offsets,
    offset_range,
    position_of,
)
from streams.kafka.errors import Retries, is_passing
from streams.kafka.headers import headers_of
from streams.kafka.transactions import abort_left_open
from streams.monitoring.group_watch import decode_offset_metadata
from streams.settings.registry import schema_formats
from streams.settings.settings import Delivery, Settings
from streams.store.changelog import Changelog, last_progress
from streams.store.changelog_codec import LoggedProgress
from streams.store.lineage import Lineage
from streams.topics.admin import (
    TopicIdResolver,
    TopicIds,
    can_administer,
    grow_changelog,
    partitions_of,
)
from streams.topics.consumer_group import assigned_partitions, group_members, listed_group
from streams.topics.watermarks import BrokerWatermarks, open_transactions
from streams.worker.log_codec import writer_of

logger = logging.getLogger(__name__)

# ---- Reading rules
#
# The identity of an index says which documents are near. The reading rules say which document a raw
# record holds; workers with different rules would send different documents for one record.

READER_VERSION: Final = 1
"""The version of ``streams.documents.raw_documents``. Raise it when the same bytes and settings
give a different document."""

_LATER_DEFAULTS: Final = frozenset({("scope", ""), ("key_format", "text")})
"""Settings that were added later, with the values that mean the behaviour before."""

_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\r": "\\r", "\n": "\\n"})

SCHEMA_READER_VERSION: Final = 1  # the same for ``streams.registry``


def reading_rules(settings: Settings) -> str:
    """Return the rules as text: one ``name=value`` per line, in a fixed order.

    Line ends in values are escaped. ``fields.scope`` and ``fields.key_format`` are only in the text
    if they are set, because some indexes are older than these settings.
    """
    rules = {
        "reader": str(READER_VERSION),
        **{
            f"fields.{name}": value
            for name, value in msgspec.structs.asdict(settings.fields).items()
            if (name, value) not in _LATER_DEFAULTS
        },
        "max_record_bytes": str(settings.max_record_bytes),
    }
    if formats := schema_formats(settings.fields):
        # The registry's address is left out, because a copy with the same ids gives the same
        # documents.
        rules["schema_reader"] = str(SCHEMA_READER_VERSION)
        if "json-schema" in formats.values():
            rules["registry.validate"] = str(settings.registry.validate).lower()
    return "\n".join(f"{name}={value.translate(_ESCAPES)}" for name, value in rules.items())


COMMAND_WRITER: Final = "care."
"""How commands that append to the log name themselves, whatever the application."""

# ---- The settings of an index, compared with those of this worker
#
# Each progress record of the changelog holds the identity (``simhash_core.text.profiles``) and the
# reading rules; the last one of partition 0 counts. A worker compares them before it joins the
# group or sends anything, so that a worker with other settings does no harm.

_ABSENT: Final = "none"
_SETTINGS: Final[Mapping[str, str]] = {
    "bits": "index.bits",
    "blocks": "index.blocks, index.block_bits, index.cuts",
    "bands": "index.bands, index.band_bins",
    "distance": "index.distance",
    "fingerprint": "index.fingerprint",
    "segmenter": "index.segmenter, index.user_dictionary",
    "weighting": "index.weighting",
    "idf": "index.idf",
    "hash": "index.feature_hash",
    "min-features": "index.min_features, index.long_characters",
    "stop-words": "index.stop_words",
    "verify": "index.verify, index.verify_at",
    "mean": "index.mean_at",
    "window": "index.window",
    "lateness": "index.lateness",
    "same-id": "index.same_id",
    "scoped": "fields.scope",
    "short-texts": "index.short_texts",
    "folding": "index.fold_traditional",
}
"""The setting for each part of an identity; other parts come from the program itself."""


class Claim(NamedTuple):
    """What a progress record says about its index, and where its shard resumes the log."""

    identity: str
    reading: str
    position: int
    control: int
    clock: LogClock | None = None


class Difference(NamedTuple):
    """The settings that differ, the index's value, and this worker's value."""

    setting: str
    theirs: str
    ours: str

    def __str__(self) -> str:
        return f"{self.setting}: there {self.theirs}, here {self.ours}"


class OtherSettingsError(StateMismatchError):
    _has: ClassVar[str] = "was made with other settings"
    _fix: ClassVar[str] = (
        "Use the settings of the index; or start a new index with a new application_id and other "
        "output topics, which reads all raw records again."
    )

    def __init__(self, where: str, differences: list[Difference]) -> None:
        self.differences = differences
        lines = "\n  ".join(map(str, differences))
        super().__init__(f"{where} {self._has}:\n  {lines}\n{self._fix}")


class OtherReadingError(OtherSettingsError):
    """Other workers read raw records with other settings."""

    _has = "has other workers, and its records are read with other settings"
    _fix = (
        "All workers must read records alike: use the same settings here; or stop all workers, and "
        "then start them with the new settings."
    )


def differences(claim: Claim, identity: str, reading: str) -> list[Difference]:
    all_differences = [
        *_identity_differences(claim.identity, identity),
        *_differing(_pairs(claim.reading.split("\n")), _pairs(reading.split("\n")), {}),
    ]
    # Both texts may name ``fields.scope``; the value in the reading rules counts.
    return list({each.setting: each for each in all_differences}.values())


def refuse_other_identity(theirs: str, ours: str, where: str) -> None:
    if different := _identity_differences(theirs, ours):
        raise OtherSettingsError(where, different)


def refuse_other_owner(there: LoggedProgress, settings: Settings, where: str) -> None:
    """Refuse the index of another raw topic, or the changelog of another application.

    The partitions of another raw topic would be the same shards, usually of a second application
    to which nobody gave an ``application_id`` of its own. Workers of another application are in
    another group, which assigns the same shards.
    """
    theirs, ours = there.progress.chain.topic, settings.topics.raw
    if theirs != ours:
        raise OtherSettingsError(where, [Difference("topics.raw", theirs, ours)])
    application, changelog = settings.application_id, settings.topics.changelog
    if there.writer and not there.writer.startswith(f"{application}."):
        other = there.writer.rpartition(".")[0]
        raise StateMismatchError(
            f"{changelog} is the changelog of application {other!r}, and this one is "
            f"{application!r}: give it internal topics of its own (topics.log, topics.reports and "
            f"topics.changelog, which by default have its name), or set application_id={other} to "
            "continue that index"
        )


def refuse_other_log(writer: str | None, settings: Settings) -> None:
    """Refuse the log of another application, whose ``writer`` appended its last record."""
    own = (f"{settings.application_id}.", COMMAND_WRITER)
    if writer is not None and not writer.startswith(own):
        raise StateMismatchError(
            f"the last record of {settings.topics.log} is of another application ({writer}): give "
            "each a log of its own (topics.log, which by default has its name). If that one no "
            "longer writes there, 'firstseen index new-log --force' makes it that of this index"
        )


def _identity_differences(theirs: str, ours: str) -> list[Difference]:
    return _differing(_identity_parts(theirs), _identity_parts(ours), _SETTINGS)


def _differing(
    theirs: Mapping[str, str], ours: Mapping[str, str], settings: Mapping[str, str]
) -> list[Difference]:
    return [
        Difference(settings.get(part, part), theirs.get(part, _ABSENT), ours.get(part, _ABSENT))
        for part in {**theirs, **ours}
        if theirs.get(part) != ours.get(part)
    ]


def _identity_parts(identity: str) -> dict[str, str]:
    name, *parts = identity.split(" ")
    return {"format": name} | _pairs(parts)


def _pairs(lines: list[str]) -> dict[str, str]:
    pairs = (line.partition("=") for line in lines if line)
    return {name: value for name, _, value in pairs}


# ---- Who owns which shards, as the broker says

_ANSWER_SECONDS: Final = 5.0

Owned = Mapping[str, frozenset[int]]  # the shards of each worker, by its name in the group


class GroupOwners:
    """Queries which worker owns what; the calls block, for one thread at a time."""

    def __init__(self, settings: Settings, writer: str) -> None:
        self._settings = settings
        self._writer = writer
        self._describes = settings.delivery is Delivery.EXACTLY_ONCE
        self._admin: AdminClient | None = None

    def read(self) -> Owned | None:
        """Return who owns what, None during a rebalance; raises ``BrokerUnavailableError``."""
        if self._admin is None:
            self._admin = AdminClient({**client_config(self._settings), "log_level": 0})
        group, raw = self._settings.application_id, self._settings.topics.raw
        try:
            if not self._describes:
                return self._noted(self._admin)
            listed = listed_group(self._admin, group, _ANSWER_SECONDS)
            if not listed.is_stable:
                return None
            return {each.name: assigned_partitions(each.assignment, raw) for each in listed.members}
        except (KafkaException, struct.error) as error:
            raise BrokerUnavailableError(
                f"the other workers of the group are unknown: {error}"
            ) from error

    def _noted(self, admin: AdminClient) -> Owned:
        """Return who committed last, for the in-process broker, which does not describe groups.

        This does not show other workers that own nothing.
        """
        raw = self._settings.topics.raw
        config = client_config(self._settings, group_id=self._settings.application_id)
        partitions = partitions_of(admin, [raw]).get(raw, 0)
        consumer = Consumer({**config, "log_level": 0})
        try:
            wanted = [TopicPartition(raw, each) for each in range(partitions)]
            committed = committed_offsets(consumer, wanted, _ANSWER_SECONDS)
        finally:
            consumer.close()
        owned: dict[str, set[int]] = {self._writer: set()}
        for each in committed:
            note = decode_offset_metadata(each.metadata)
            if note is not None:
                owned.setdefault(note.worker, set()).add(each.partition)
        return {name: frozenset(partitions) for name, partitions in owned.items()}


# ---- Whose records the output topics have
#
# A new index has no outputs yet, but reads all of the raw topic. With a mistyped application_id it
# would write most outputs of the right application a second time, out of order.

# Offsets before the end of a partition, because the last may be transaction markers.
_TAIL: Final = 100
_TAIL_BATCH: Final = 100
_TAIL_SECONDS: Final = 0.2


class OtherOutputs(NamedTuple):
    """A record of an output topic that an index did not write; ``application`` may be ""."""

    position: SourcePosition
    application: str

    def refusal(self, settings: Settings) -> str:
        whose = f"application {self.application!r}" if self.application else "another index"
        own = f"set application_id={self.application or '…'} to continue that index"
        return (
            f"application {settings.application_id!r} has no index yet, and {self.position.topic} "
            f"has records of {whose} ({self.position}). A new index reads all of "
            f"{settings.topics.raw} from its first record, so most documents would be written "
            f"again, after the existing records. So this worker refuses to start: {own}; or use "
            "other output topics for the new index; or set shared_outputs=true"
        )


def other_outputs(settings: Settings, partitions: Mapping[str, int]) -> OtherOutputs | None:
    """Return a record near the end of an output partition from another application, if any.

    Logs a warning if there are records of this application. Blocking. Raises
    ``BrokerUnavailableError`` after the time-out of a send, and ``BrokerRefusedError``.
    """
    own: SourcePosition | None = None
    with contextlib.closing(_last_outputs(settings, partitions)) as messages:
        for message in messages:
            whose = _application_of(message)
            if whose == settings.application_id:
                own = own or position_of(message)
            elif whose is not None:
                return OtherOutputs(position_of(message), whose)
    if own is not None:
        logger.warning(
            "application %r has no index, but %s has records of it (%s): the index was dropped or "
            "lost. All raw records are read and output again. If that is not wanted, stop this "
            "worker, and restore the changelog and the offsets of the group",
            settings.application_id,
            own.topic,
            own,
        )
    return None


def _last_outputs(settings: Settings, partitions: Mapping[str, int]) -> Generator[Message]:
    """Yield the last records of output partitions; raises as ``other_outputs``.

    A topic that this user may not read is left out, with a warning.
    """
    deadline = time.monotonic() + settings.send_timeout_seconds
    config = client_config(
        settings,
        group_id=changelog_group(settings),
        enable_auto_commit=False,
        enable_partition_eof=True,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    consumer = Consumer({**config, "log_level": 0})
    try:
        tails = list(_tails(consumer, partitions, deadline))
        left: set[tuple[str | None, int | None]] = {(each.topic, each.partition) for each in tails}
        consumer.assign(tails)
        while left and time.monotonic() < deadline:
            for message in consumer.consume(_TAIL_BATCH, timeout=_TAIL_SECONDS):
                place, error = (message.topic(), message.partition()), message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - a public code
                    left.discard(place)
                elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    logger.warning(
                        "this user may not read %s, so it is unknown whether the topic has "
                        "records of another application (ACL: READ on the topic)",
                        message.topic(),
                    )
                    left = {each for each in left if each[0] != message.topic()}
    except KafkaException as error:
        kind = BrokerUnavailableError if is_passing(error) else BrokerRefusedError
        raise kind(f"output topics cannot be read: {error.args[0].str()}") from error
    finally:
        consumer.close()
    if left:
        raise BrokerUnavailableError(
            f"it is unknown which applications wrote to the output topics: {len(left)} "
            f"partitions, such as {'/'.join(map(str, min(left, key=str)))}, were not read within "
            f"{settings.send_timeout_seconds:g} s"
        )


def _tails(
    consumer: Consumer, partitions: Mapping[str, int], deadline: float
) -> Iterator[TopicPartition]:
    for topic, count in partitions.items():
        for partition in range(count):
            wait = max(_TAIL_SECONDS, deadline - time.monotonic())
            # A broker that was lost does not respond to a request; the next request goes to its
            # successor.
            again = Retries(wait, _TAIL_SECONDS)
            seconds = min(wait, _ANSWER_SECONDS)
            low, high = again(offset_range, consumer, topic, partition, seconds)
            if low < high:
                yield TopicPartition(topic, partition, max(low, high - _TAIL))


def _application_of(message: Message) -> str | None:
    """Return which application wrote a record, "" if it is unnamed; None: no index did."""
    headers = dict(headers_of(message) or ())
    if VERDICT_HEADER not in headers:
        return None
    return (headers.get(APPLICATION_HEADER) or b"").decode(errors="replace")


# ---- The index of one application

LOAD_COMMAND: Final = "index-load"
NEW_LOG_COMMAND: Final = "index-new-log"
"""Commands with a transaction: their names in the group and as transactional ids, after the id of
the application."""

_DELETE_SECONDS: Final = 10.0
_MEMBERS_MAX: Final = 1_000  # how many members to remember; the latest ones stay
_ID_TRIES: Final = 5
_OPENING_SECONDS: Final = 15.0
"""How long another worker may take to join the group and to commit progress of shard 0."""
_CHANGED_SECONDS: Final = 0.5


class IndexOnKafka:
    """The worker's queries about its index."""

    def __init__(self, settings: Settings, identity: str, reading: str, writer: str) -> None:
        """``writer`` is this worker's name in the group, and its transactional id."""
        self._settings = settings
        self._identity = identity
        self._reading = reading
        self._writer = writer
        self._has_transactions = settings.delivery is Delivery.EXACTLY_ONCE
        self._has_admin = self._has_transactions  # with transactions, a starting worker checks it
        self._looker: AdminClient | None = None
        self._seen: dict[str, None] = {}  # workers of the group, the latest ones at the end
        self._strangers: set[str] = set()  # present members that are no workers
        resolver = TopicIdResolver(self._connect, has_ids=self._has_admin)
        self._watermarks = BrokerWatermarks(
            client_config(settings), settings.application_id, settings.send_timeout_seconds
        )
        self._topic_ids = TopicIds(resolver, _ID_TRIES * settings.send_timeout_seconds)

    async def topic_id(self) -> str:
        """Return the id of the raw topic, or "" if the broker has no topic ids."""
        return await self._topic_ids.of(self._settings.topics.raw)

    async def log_id(self) -> str:
        return await self._topic_ids.of(self._settings.topics.log)

    def changelog_id(self) -> str:
        """Return the id of the changelog topic, or ""; blocking; raises as ``TopicIds.of_now``."""
        return self._topic_ids.of_now(self._settings.topics.changelog)

    async def partitions(self) -> int:
        """Return the number of partitions of the raw topic, 0 if the topic does not exist.

        This does not use the consumer: a call to confluent-kafka (2.16) within one of its callbacks
        aborts the process at the next callback. Raises ``BrokerUnavailableError``.
        """
        return await asyncio.to_thread(self._partitions)

    def _partitions(self) -> int:
        raw = self._settings.topics.raw
        self._looker = looker = self._looker or self._connect()
        try:
            return partitions_of(looker, [raw]).get(raw, 0)
        except BrokerUnavailableError:
            self._looker = None  # use a new client, as for the id of the topic
            raise

    async def claim(self) -> Claim | None:
        """Return the claim of shard 0; raises ``StateMismatchError`` if it differs."""
        return await asyncio.to_thread(self._claim)

    async def lineages(self, partitions: Iterable[int]) -> dict[int, Lineage]:
        last = await asyncio.to_thread(self._last_progress, partitions)
        return {partition: progress.lineage for partition, progress in last.items()}

    def _last_progress(self, partitions: Iterable[int]) -> dict[int, LoggedProgress]:
        """Return the last progress of changelog partitions that have one; blocking.

        Raises the errors of ``last_progress``.
        """
        settings = self._settings
        return last_progress(
            settings.topics.changelog,
            set(partitions),
            client_config(settings, group_id=changelog_group(settings)),
            settings.send_timeout_seconds,
        )

    def _log_writer(self) -> str | None:
        """Return who appended the last record of the log that says so; blocking."""
        settings = self._settings
        topic, seconds = settings.topics.log, settings.send_timeout_seconds
        config = client_config(settings, group_id=changelog_group(settings))
        log = Changelog(topic, 0, config, seconds, may_be_cut=True)
        for tail in log.tails():
            found = [writer_of(value) for batch in tail for value in batch.values]
            if writers := [*filter(None, found)]:
                return writers[-1]
        return None

    def refuse_mismatch(self) -> None:
        """Raise ``StateMismatchError`` if this worker must not join the group; blocking.

        A new index must have output topics of its own, or ``shared_outputs``. Different reading
        rules are refused only while other workers are in the group. Otherwise they may change, for
        example to correct the name of a field, because they do not decide what is near. Workers
        that were killed stay in the group for a session, and workers that were started with the
        same new rules may not have committed them yet, so this waits for both.
        """
        seconds = self._settings.session_timeout_seconds + _OPENING_SECONDS
        began = time.monotonic()
        is_logged = False
        while True:
            claim = self._claim()
            refuse_other_log(self._log_writer(), self._settings)
            if claim is None:
                self._refuse_other_outputs()
                return
            different = differences(claim, self._identity, self._reading)
            if not (different and self._takes_admin_requests() and self._has_others()):
                break
            if time.monotonic() - began > seconds:
                raise OtherReadingError(self._where, different)
            if not is_logged:
                is_logged = True
                logger.info(
                    "waiting up to %g s until other workers leave the group or have these "
                    "settings: %s",
                    seconds,
                    "; ".join(map(str, different)),
                )
            time.sleep(_CHANGED_SECONDS)
        for each in different:
            logger.warning("reading settings have changed: %s was %s, and is now %s", *each)

    def _refuse_other_outputs(self) -> None:
        settings = self._settings
        if settings.shared_outputs:
            return
        # The topic of dead letters is left out, because applications may share it.
        names = set(settings.output_topics) - {settings.topics.dead_letters}
        found = other_outputs(settings, partitions_of(self._connect(), names))
        if found is not None:
            raise StateMismatchError(found.refusal(settings))

    @property
    def _where(self) -> str:
        topic = self._settings.topics.changelog
        return f"the index of application {self._settings.application_id!r} ({topic})"

    def _claim(self) -> Claim | None:
        logged = self._last_progress([0]).get(0)
        if logged is None:
            return None
        at = logged.progress
        refuse_other_identity(logged.identity, self._identity, self._where)
        refuse_other_owner(logged, self._settings, self._where)
        return Claim(logged.identity, logged.reading, at.position, at.control, at.clock)

    async def members(self) -> dict[str, str]:
        """Return the names of all workers in the group, each with its member id.

        Raises ``BrokerUnavailableError``.

        The in-process broker does not list groups. Its data is lost when it ends, so there is never
        an upgrade, and this returns only this worker.
        """
        return await asyncio.to_thread(
            lambda: self._members() if self._takes_admin_requests() else {self._writer: ""}
        )

    async def remember_members(self) -> None:
        """Remember who is in the group, to know later who has left it.

        A worker that is killed in its first commit of a shard has left no record that names it.
        """
        if self._has_transactions:
            with contextlib.suppress(BrokerUnavailableError):
                self._remember(await asyncio.to_thread(self._members))

    async def abort_left_open(self, partitions: Iterable[int]) -> None:
        """Abort open transactions of members that left the group, instead of waiting for time-outs.

        These are the last writers of ``partitions`` and former members of the group. If the
        changelog still has an open one, it may be that of a killed command, which no worker has
        seen. Raises ``BrokerUnavailableError``.
        """
        if not self._has_transactions:
            return
        last = await asyncio.to_thread(self._last_progress, partitions)
        members = await asyncio.to_thread(self._members)
        if self._writer not in members:
            raise BrokerUnavailableError(
                f"unknown who is in the group {self._settings.application_id}: this worker, "
                f"{self._writer}, is not among its {len(members)} member(s)"
            )
        self._remember(members)
        writers = {each.writer for each in last.values()} | self._seen.keys()
        await self._abort(writers - members.keys() - {""})
        if await asyncio.to_thread(self._has_open, partitions):
            application = self._settings.application_id
            commands = {f"{application}.{each}" for each in (LOAD_COMMAND, NEW_LOG_COMMAND)}
            await self._abort(commands - members.keys())

    async def _abort(self, writers: Iterable[str]) -> None:
        for writer in sorted(writers):
            logger.info("%s has left the group: aborting its open transaction, if any", writer)
            await abort_left_open(
                output_config(self._settings), writer, self._settings.send_timeout_seconds
            )
            self._seen.pop(writer, None)

    def _has_open(self, partitions: Iterable[int]) -> bool:
        topic = self._settings.topics.changelog
        wanted = [Partition(topic, each) for each in partitions]
        return bool(wanted and open_transactions(self._watermarks.of(wanted, starts=False)))

    def _members(self) -> dict[str, str]:
        return group_members(self._connect(), self._settings.application_id)

    def _has_others(self) -> bool:
        """Return whether the group has members apart from this worker, which may be static."""
        return bool(self._members().keys() - {self._writer})

    def _remember(self, members: Collection[str]) -> None:
        application = self._settings.application_id
        for each in sorted(members):
            if each.startswith(f"{application}."):
                self._seen.pop(each, None)
                self._seen[each] = None
            elif each not in self._strangers:
                # Its name is no transactional id of this application: another producer may have it.
                self._strangers.add(each)
                logger.warning(
                    "the group %s has a member that is no worker of it, named %s. It may get raw "
                    "partitions, whose records then do not come out, and commit their offsets. "
                    "Stop it, or give it another group",
                    application,
                    each,
                )
        self._strangers.intersection_update(members)
        for each in list(self._seen)[:-_MEMBERS_MAX]:
            del self._seen[each]

    async def grow_changelog(self) -> None:
        await asyncio.to_thread(self._grow_changelog)

    def _grow_changelog(self) -> None:
        if self._takes_admin_requests():
            grow_changelog(self._connect(), self._settings)

    async def delete_before(self, offset: int) -> None:
        await asyncio.to_thread(self._delete_before, offset)

    def _delete_before(self, offset: int) -> None:
        if not self._takes_admin_requests():
            return
        log = self._settings.topics.log
        admin = self._connect()  # a client that is garbage-collected gets no response
        futures: dict[TopicPartition, Future[object]] = admin.delete_records(
            [TopicPartition(log, 0, offset)], request_timeout=_DELETE_SECONDS
        )
        try:
            for future in futures.values():
                future.result(_DELETE_SECONDS)
        except (KafkaException, TimeoutError) as error:
            reason = error if isinstance(error, KafkaException) else "no broker answers"
            raise FirstseenError(
                f"records of {log} before offset {offset} cannot be deleted: {reason}. Has this "
                "user the permission (ACL: DELETE on the topic)?"
            ) from error

    def _takes_admin_requests(self) -> bool:
        """Return whether the broker takes admin requests, which does not depend on ``delivery``.

        Each call checks until the broker says so, because a broker that is starting can look like
        one that takes none. Blocking; raises ``BrokerUnavailableError``.
        """
        self._has_admin = self._has_admin or can_administer(self._connect())
        return self._has_admin

    def _connect(self) -> AdminClient:
        return AdminClient(client_config(self._settings))
