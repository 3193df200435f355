"""A worker waits for schemas and says so; it ends if the registry refuses its user."""

from __future__ import annotations

import asyncio
import threading
from typing import cast
from unittest.mock import Mock

import pytest
from confluent_kafka import Message
from prometheus_client import CollectorRegistry

from simhash_core.errors import FirstseenError
from streams.documents.fields import FieldSettings
from streams.documents.schema_framing import SchemaId
from streams.errors import RegistryRefusedError
from streams.kafka.raw_consumer import RawRecords
from streams.monitoring.metrics import Metrics
from streams.registry.registry_client import RegistryClient
from streams.registry.schemas import FetchedSchema, RegistryUnavailableError
from streams.settings.registry import RegistrySettings
from streams.settings.settings import Settings
from streams.worker import schema_prefetch
from streams.worker.schema_prefetch import SchemaPrefetch


class Framed:
    def headers(self) -> None: ...

    def value(self) -> bytes:
        return b"\x00\x00\x00\x00\x01\x02a"


def prefetching(registry: RegistrySettings) -> tuple[SchemaPrefetch, CollectorRegistry]:
    settings = Settings(fields=FieldSettings(format="avro"), registry=registry)
    metrics = Metrics(collector := CollectorRegistry())
    return SchemaPrefetch(settings, metrics), collector


BATCH = [RawRecords(0, 1, cast("list[Message]", [Framed()]), 7)]
REFUSED, AWAY = RegistryRefusedError("401"), RegistryUnavailableError("no answer")


@pytest.mark.parametrize(
    ("errors", "requests"), [([REFUSED] * 3, 3), ([REFUSED, REFUSED, AWAY, *[REFUSED] * 3], 6)]
)
async def test_a_worker_ends_after_three_refusals_in_a_row(
    errors: list[FirstseenError], requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A registry that starts may refuse some requests, and one that is away is waited for."""
    fetch = Mock(side_effect=errors)
    monkeypatch.setattr(RegistryClient, "fetch", fetch)
    monkeypatch.setattr(schema_prefetch, "_LONGEST_WAIT_SECONDS", 0.0)
    prefetch, _ = prefetching(RegistrySettings(url="http://127.0.0.1:1"))
    with pytest.raises(RegistryRefusedError):
        await prefetch.ready(BATCH)
    assert fetch.call_count == requests


async def test_a_slow_registry_is_named_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()

    def fetch(_: RegistryClient, _schema: SchemaId) -> FetchedSchema:
        assert answers.wait(10)
        return FetchedSchema("AVRO", '"string"')

    monkeypatch.setattr(RegistryClient, "fetch", fetch)
    registry = RegistrySettings(url="http://127.0.0.1:1", timeout_seconds=0.1)
    prefetch, collector = prefetching(registry)
    ready = asyncio.ensure_future(prefetch.ready(BATCH))
    waits = []
    try:
        for _ in range(100):
            await asyncio.sleep(0.05)
            if prefetch.why_waiting() is not None:
                waits.append(collector.get_sample_value("firstseen_registry_waiting"))
                break
        assert waits == [1.0]
        assert "records take more than 0.2 s" in (prefetch.why_waiting() or "")
    finally:
        answers.set()
        await ready
    assert prefetch.why_waiting() is None
    assert collector.get_sample_value("firstseen_registry_waiting") == 0.0
