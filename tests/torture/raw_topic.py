"""Reads the raw topic, which has the documents by which the workers are judged.

The feed knows where its records were acknowledged. The topic may have some of them twice. After a
change of leaders librdkafka (2.16) may begin a new epoch of its idempotent producer while a request
of another partition has no response yet, and then append its records again under the new epoch
(issue 4953). A producer that is stopped early also leaves records without an acknowledgement, and a
broker that has restarted may acknowledge a repeated request without its offsets. For the workers,
each of these records is a separate document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from simhash_core.documents import SourcePosition
from streams.kafka.client_config import client_config
from streams.kafka.clients import AdminClient
from streams.settings.settings import Settings
from streams.topics.admin import partitions_of
from tests.torture.aftermath import read_all
from tests.torture.plan import Planned


def partition_count(settings: Settings, topic: str) -> int:
    """Return the brokers' number, as a request to add a partition may succeed without an answer."""
    return partitions_of(AdminClient(client_config(settings)), [topic])[topic]


def raw_records(settings: Settings) -> dict[SourcePosition, Planned]:
    """Read the raw topic from its beginning to its end."""
    topic = settings.topics.raw
    records = read_all(settings, {topic: partition_count(settings, topic)})
    return {
        each.position: Planned(each.position.partition, each.key, each.value) for each in records
    }


class Arrival(NamedTuple):
    """How the raw topic differs from the acknowledgements that the feed got."""

    unacknowledged: list[SourcePosition]
    """Records of the feed at positions that were not acknowledged."""
    wrong: list[str]
    """Errors of the brokers: acknowledged records that are missing, or records never sent."""


def arrival(
    sent: AbstractSet[Planned],
    acknowledged: Mapping[SourcePosition, Planned],
    arrived: Mapping[SourcePosition, Planned],
    unplaced: Iterable[Planned] = (),
) -> Arrival:
    """Compare the records; each of them has the partition to which it was sent.

    ``unplaced`` were acknowledged without a position.
    """
    wrong = [
        f"{source} was acknowledged, and the topic holds {'another' if there else 'no'} record"
        for source, planned in acknowledged.items()
        if (there := arrived.get(source)) != planned
    ]
    unacknowledged = sorted(arrived.keys() - acknowledged.keys())
    wrong += [f"{each} was not sent" for each in unacknowledged if arrived[each] not in sent]
    elsewhere = {arrived[each] for each in unacknowledged}
    wrong += [
        f"a record of partition {each.partition} was acknowledged, and the topic does not hold it"
        for each in unplaced
        if each not in elsewhere
    ]
    return Arrival(unacknowledged, wrong)
