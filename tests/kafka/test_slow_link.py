"""A reader on a slow link reads on: an answer of the broker comes before the reader gives it up."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from streams.kafka.clients import Producer
from streams.settings.settings import Settings
from streams.store.changelog import Changelog
from tests.rigs.async_tests import until
from tests.rigs.brokers.late_requests import RAW, SECONDS, Scene
from tests.unit.kafka.recording_owner import RecordingOwner

BYTES_PER_SECOND = 350_000
RECORD_BYTES = 2_000
RECORDS = 2_400


@pytest.fixture(scope="module")
def scene(
    kafka_required: None,  # noqa: ARG001 - skips
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Scene]:
    made = Scene(tmp_path_factory.mktemp("slow"))
    with made.running():
        producer = Producer(made.config)
        content = random.Random(1)
        for _ in range(RECORDS):
            producer.produce(RAW, content.randbytes(RECORD_BYTES), partition=0)
        assert producer.flush(SECONDS) == 0
        made.proxy.slow(BYTES_PER_SECOND)
        yield made


async def test_a_worker_with_lag_reads_on(scene: Scene) -> None:
    """The whole lag takes 14 s on this link, and a fetch may take 4 s."""
    settings = Settings(application_id="slow", brokers=scene.config["bootstrap.servers"])
    owner = RecordingOwner()
    consumer = owner.open(settings, RAW)
    await until(lambda: owner.count == RECORDS)
    await consumer.close()
    assert owner.offsets[0] == [*range(RECORDS)]


def test_a_changelog_is_read_on(scene: Scene) -> None:
    config = {**scene.config, "group.id": "slow-changelog"}
    silence_seconds = 8.0
    log = Changelog(RAW, 0, config, silence_seconds)
    offsets = [offset for batch in log.read(0, lambda _left: None) for offset in batch.offsets]
    assert offsets == [*range(RECORDS)]
