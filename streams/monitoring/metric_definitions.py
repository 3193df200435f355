"""All metrics of a worker, read from ``metrics.toml``, and the values of their labels."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from enum import StrEnum
from importlib.resources import files
from typing import Final, NamedTuple

from simhash_core.errors import ErrorReason
from streams.monitoring.metric_labels import (
    OUTPUTS,
    REJECTION_REASONS,
    VERDICTS,
    InternalTopic,
    Stage,
    TransactionOutcome,
)
from streams.registry.schemas import FetchOutcome

PREFIX: Final = "firstseen_"

_FILE: Final = "metrics.toml"
_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "any": (),
    "errors": tuple(map(str, ErrorReason)),
    "fetches": tuple(map(str, FetchOutcome)),
    "internal topics": tuple(map(str, InternalTopic)),
    "outputs": OUTPUTS,
    "rejections": REJECTION_REASONS,
    "removals": ("deleted", "expired"),
    "stages": tuple(map(str, Stage)),
    "transactions": tuple(map(str, TransactionOutcome)),
    "verdicts": VERDICTS,
}


class MetricKind(StrEnum):
    """The type in the text format; an info is a gauge at 1 with labels."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"
    INFO = "info"


class MetricDefinition(NamedTuple):
    name: str  # as scraped; of a histogram, without suffix
    kind: MetricKind
    help: str  # for the exposition
    answers: str  # for the documentation
    labels: Mapping[str, tuple[str, ...]]  # (): values are not known beforehand
    buckets: tuple[float, ...]


def _definitions() -> Iterator[MetricDefinition]:
    for name, table in tomllib.loads((files(__package__) / _FILE).read_text("utf-8")).items():
        labels = {label: _VALUES[values] for label, values in table.get("labels", {}).items()}
        yield MetricDefinition(
            PREFIX + name,
            MetricKind(table["kind"]),
            table["help"],
            table["answers"],
            labels,
            tuple(table.get("buckets", ())),
        )


DEFINITIONS: Final = tuple(_definitions())
"""In the order of the file."""

DEFINED: Final = {each.name.removeprefix(PREFIX): each for each in DEFINITIONS}
"""The same by their names without prefix."""
