"""Rules about several settings, which an annotation of one setting cannot state.

A rule is a function that yields violations; ``RULES`` lists all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from itertools import combinations, starmap
from typing import Final, NamedTuple

import msgspec

from simhash_core.errors import UnknownNameError, UsageError
from simhash_core.fingerprints.feature_hashes import feature_hash_named
from simhash_core.text.profiles import profile_named
from simhash_core.text.segmentation import SEGMENTERS
from simhash_core.text.verification import verification_named
from simhash_core.text.weighting import weighting_named
from simhash_core.window import parse_duration
from streams.settings.kafka_properties import not_accepted, security_problems
from streams.settings.settings import (
    INTERNAL_OVERHEAD_BYTES,
    MATCH_BYTES,
    MIB,
    Settings,
    TraceExport,
)

INTERNAL_BYTES_MAX: Final = 64 * MIB
"""The limit of a record on an internal topic, for brokers with default settings."""
PORT_MAX: Final = 65_535


_NAMED: Final[Mapping[str, Callable[[str], object]]] = {
    "weighting": weighting_named,
    "feature_hash": feature_hash_named,
    "verify": verification_named,
}


class Violation(NamedTuple):
    setting: str
    message: str


def brokers_are_addresses(settings: Settings) -> Iterator[Violation]:
    if not settings.brokers:
        yield Violation("brokers", "it must name at least one broker, host:port")
        return
    for broker in settings.brokers.split(","):
        host, _, port = broker.rpartition(":")
        if "://" in broker:
            yield Violation("brokers", f"{broker!r} has a scheme: give host:port alone")
        elif not host or any(c.isspace() for c in broker):
            yield Violation("brokers", f"{broker!r} is not an address: give host:port")
        elif ":" in host and not (host.startswith("[") and host.endswith("]")):
            yield Violation(
                "brokers", f"{broker!r} has no brackets: write an IPv6 address as [::1]:9092"
            )
        elif not (port.isascii() and port.isdigit() and 1 <= int(port) <= PORT_MAX):
            yield Violation("brokers", f"{broker!r} has no port from 1 to {PORT_MAX}")


def topics_differ(settings: Settings) -> Iterator[Violation]:
    """Topics differ: otherwise outputs would be read as inputs, endlessly."""
    topics = msgspec.structs.asdict(settings.topics)
    for name, topic in topics.items():
        if topic in {"", ".", ".."}:
            message = f"{topic!r} is not a valid topic name: 1 to 249 characters, and not . or .."
            yield Violation(f"topics.{name}", message)
    for (one, name), (other, same) in combinations(topics.items(), 2):
        # Kafka refuses names that differ only in . and _, because its metrics would confuse them.
        if name and name.replace(".", "_") == same.replace(".", "_"):
            yield Violation(
                f"topics.{other}", f"it must differ from topics.{one} (in more than . and _)"
            )


def index_can_be(settings: Settings) -> Iterator[Violation]:
    """The profile exists, and with the changes of ``index`` it makes a valid block scheme."""
    try:
        profile_named(settings.profile)
    except UnknownNameError as error:
        yield Violation("profile", str(error))
        return
    try:
        profile = settings.index_profile()
        profile.check_files()
    except UsageError as error:
        known = msgspec.structs.asdict(settings.index)
        changed = error.setting if error.setting in known else "blocks"
        yield Violation(f"index.{changed}", f"with the profile {settings.profile!r}: {error}")
        return
    for name, named in _NAMED.items():
        try:
            named(getattr(profile, name))
        except UnknownNameError as error:
            yield Violation(f"index.{name}", str(error))
    if profile.segmenter not in SEGMENTERS:  # its dictionary is not loaded for this
        unknown = UnknownNameError("segmenter", profile.segmenter, SEGMENTERS)
        yield Violation("index.segmenter", str(unknown))


def a_window_has_a_length(settings: Settings) -> Iterator[Violation]:
    index = settings.index
    with suppress(UsageError):  # `index_can_be` reports it
        if index.window is not None and not parse_duration(index.window):
            yield Violation(
                "index.window", "it is 0: only documents with the same time could be near"
            )
    if index.lateness is not None and index.window is None:
        yield Violation("index.lateness", "it has no effect without index.window: set both")


def state_dir_is_a_directory(settings: Settings) -> Iterator[Violation]:
    for path in (*reversed(settings.state_path().parents), settings.state_path()):
        try:
            if path.exists() and not path.is_dir():
                yield Violation("state_dir", f"{path} is not a directory")
                return
        except (OSError, ValueError) as error:
            yield Violation("state_dir", f"{path} cannot be looked at: {error}")
            return


def kafka_properties_can_be(settings: Settings) -> Iterator[Violation]:
    """The Kafka clients accept each given property; the loader has translated them."""
    properties = settings.kafka
    if not properties:
        return
    # librdkafka checks last: its messages are the least clear, and it reads the files.
    problems = [*security_problems(properties)] or [*not_accepted(properties)]
    yield from (
        Violation(f"kafka.{name}" if name else "kafka", message)
        for name, message in dict(reversed(problems)).items()
    )


def traces_have_their_packages(settings: Settings) -> Iterator[Violation]:
    if settings.traces is not TraceExport.OFF and find_spec("opentelemetry") is None:
        yield Violation("traces", "opentelemetry is not installed: pip install 'firstseen[otel]'")


def internal_records_fit(settings: Settings) -> Iterator[Violation]:
    if settings.largest_internal_bytes > INTERNAL_BYTES_MAX:
        documents = (INTERNAL_BYTES_MAX - INTERNAL_OVERHEAD_BYTES) // MATCH_BYTES
        yield Violation(
            "batch.bundles",
            f"batch.documents × batch.bundles is {settings.batch.documents} × "
            f"{settings.batch.bundles}: it must be {documents} or less, or the verdicts could "
            f"not fit in one record",
        )


def a_batch_may_be_in_flight(settings: Settings) -> Iterator[Violation]:
    if settings.in_flight.documents < settings.batch.documents:
        yield Violation(
            "in_flight.documents",
            f"it must be at least batch.documents, which is {settings.batch.documents}",
        )


RULES: Final[tuple[Callable[[Settings], Iterator[Violation]], ...]] = (
    brokers_are_addresses,
    topics_differ,
    index_can_be,
    a_window_has_a_length,
    state_dir_is_a_directory,
    kafka_properties_can_be,
    lambda settings: starmap(Violation, settings.web.problems()),
    lambda settings: starmap(Violation, settings.registry.problems(settings.fields)),
    traces_have_their_packages,
    internal_records_fit,
    a_batch_may_be_in_flight,
)


def violations(settings: Settings) -> Iterator[Violation]:
    for rule in RULES:
        yield from rule(settings)
