"""While schemas are fetched slowly, the worker says what it waits for."""

from __future__ import annotations

import asyncio
import threading
from typing import cast

import pytest
from confluent_kafka import Message
from prometheus_client import CollectorRegistry

from streams.documents.fields import FieldSettings
from streams.documents.schema_framing import SchemaId
from streams.kafka.raw_consumer import RawRecords
from streams.monitoring.metrics import Metrics
from streams.registry.registry_client import RegistryClient
from streams.registry.schemas import FetchedSchema
from streams.settings.registry import RegistrySettings
from streams.settings.settings import Settings
from streams.worker.schema_prefetch import SchemaPrefetch


class Framed:
    def headers(self) -> None: ...

    def value(self) -> bytes:
        return b"\x00\x00\x00\x00\x01\x02a"


async def test_a_slow_registry_is_named_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()

    def fetch(_: RegistryClient, _schema: SchemaId) -> FetchedSchema:
        assert answers.wait(10)
        return FetchedSchema("AVRO", '"string"')

    monkeypatch.setattr(RegistryClient, "fetch", fetch)
    registry = RegistrySettings(url="http://127.0.0.1:1", timeout_seconds=0.1)
    settings = Settings(fields=FieldSettings(format="avro"), registry=registry)
    metrics = Metrics(collector := CollectorRegistry())
    prefetch = SchemaPrefetch(settings, metrics)
    batch = [RawRecords(0, 1, cast("list[Message]", [Framed()]), 7)]
    ready = asyncio.ensure_future(prefetch.ready(batch))
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
