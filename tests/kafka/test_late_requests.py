"""A repeated request that arrives late does not change the next transaction.

Nor does one that the broker has already, so that it no longer knows the offsets of its records.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streams.errors import UnansweredError
from streams.kafka.errors import AbortedError, UnverifiedError
from streams.kafka.producers import (
    AcknowledgedProducer,
    Appender,
    AppendUnknownError,
    ProducerRecord,
)
from tests.rigs.brokers.late_requests import OUTPUTS, SECONDS, KeptEpoch, Scene
from tests.rigs.brokers.request_proxy import Request

TRIES = 5


@pytest.fixture(scope="module")
def scene(
    kafka_required: None,  # noqa: ARG001 - skips
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Scene]:
    made = Scene(tmp_path_factory.mktemp("late"))
    with made.running():
        yield made


@pytest.fixture
def outputs_before(scene: Scene) -> int:
    return len(scene.outputs())


@pytest.mark.parametrize(
    "config",
    [{}, {"log.connection.close": False, "reconnect.backoff.ms": 0}],
    ids=["default", "silent"],
)
def test_a_late_commit_does_not_end_the_next_transaction(
    scene: Scene, outputs_before: int, config: dict[str, int]
) -> None:
    producer = scene.producer(config)
    for number in range(TRIES):
        scene.try_late(producer, f"{number}")
    producer.close()
    assert scene.outputs()[outputs_before:] == [f"{number}-first" for number in range(TRIES)]


def test_a_failure_that_librdkafka_does_not_repeat_is_noticed(
    scene: Scene, outputs_before: int
) -> None:
    """Librdkafka reports an equal connection failure once in 30 s; the first comes at opening."""
    producer = scene.producer()
    scene.proxy.keep(Request.INIT_PRODUCER_ID)
    producer.open()
    scene.proxy.forget()
    scene.try_late(producer, "opened")
    producer.close()
    assert scene.outputs()[outputs_before:] == ["opened-first"]


def test_brokers_let_a_late_commit_end_what_has_the_same_epoch(
    scene: Scene, outputs_before: int
) -> None:
    """This is why the protection is needed, and shows that these tests can fail."""
    control = KeptEpoch(scene.config)
    scene.try_late(control, "control")
    control.close()
    assert scene.outputs()[outputs_before:] == ["control-first", "control-torn"]


@pytest.mark.parametrize(
    "kind",
    [
        Request.PRODUCE,
        Request.ADD_PARTITIONS_TO_TXN,
        Request.ADD_OFFSETS_TO_TXN,
        Request.TXN_OFFSET_COMMIT,
    ],
)
def test_no_late_request_of_a_transaction_changes_the_next(
    scene: Scene, outputs_before: int, kind: Request
) -> None:
    producer = scene.producer()
    scene.commit(producer, "before", 1)
    scene.proxy.keep(kind)
    scene.commit(producer, "first", 2)
    scene.proxy.deliver_before(Request.END_TXN)
    scene.commit(producer, "second", 3)
    producer.close()
    assert not scene.proxy.has_kept
    # If a transaction had no end, the reader would wait before it and not reach this point.
    assert scene.outputs()[outputs_before:] == ["before", "first", "second"]
    assert scene.committed() == 3


def test_a_commit_is_refused_until_its_caller_knows_that_a_connection_failed(
    scene: Scene, outputs_before: int
) -> None:
    producer = scene.producer()
    scene.commit(producer, "before", 1)
    known = producer.failures()
    scene.proxy.keep(Request.END_TXN)
    scene.commit(producer, "first", 2, failures=known)
    scene.proxy.forget()
    with pytest.raises(UnverifiedError):
        scene.commit(producer, "refused", 3, failures=known)
    scene.commit(producer, "second", 3, failures=producer.failures())
    scene.proxy.keep(Request.PRODUCE)
    with pytest.raises(UnverifiedError):
        scene.commit(producer, "aborted", 4, failures=producer.failures())
    scene.proxy.forget()
    scene.commit(producer, "third", 4, failures=producer.failures())
    producer.close()
    assert scene.outputs()[outputs_before:] == ["before", "first", "second", "third"]


def test_a_commit_whose_end_in_the_changelog_is_unknown_is_aborted(
    scene: Scene, outputs_before: int
) -> None:
    """The next progress would name a wrong offset of the changelog."""
    producer = scene.producer(changelog_topic=OUTPUTS)
    scene.commit(producer, "before", 1)
    scene.proxy.hide_offset()
    with pytest.raises(AbortedError, match="outputs/0: the broker has the record already"):
        scene.commit(producer, "aborted", 2)
    assert scene.committed() == 1
    scene.commit(producer, "again", 2)
    producer.close()
    assert scene.outputs()[outputs_before:] == ["before", "again"]


def test_sends_whose_end_in_the_changelog_is_unknown_are_unanswered(
    scene: Scene, outputs_before: int
) -> None:
    producer = AcknowledgedProducer(scene.config, SECONDS, changelog_topic=OUTPUTS)
    scene.proxy.hide_offset()
    with pytest.raises(UnansweredError, match="outputs/0: the broker has the record already"):
        producer.send([ProducerRecord(OUTPUTS, None, b"unknown", 0)])
    end = producer.send([ProducerRecord(OUTPUTS, None, b"known", 0)])[0]
    producer.close()
    assert scene.outputs()[outputs_before:] == ["unknown", "known"]
    assert scene.ends() == end


async def test_an_append_whose_offset_is_unknown_is_no_append_at_a_wrong_offset(
    scene: Scene,
) -> None:
    """The leader would go on from that offset, and nobody would accept its next decisions."""
    appender = Appender({**scene.config, "enable.idempotence": True})
    appender.open()
    scene.proxy.hide_offset()
    with pytest.raises(AppendUnknownError, match="the broker has the record already"):
        await appender.append(OUTPUTS, b"unknown")
    offset = await appender.append(OUTPUTS, b"known")
    await appender.close()
    assert scene.ends() == offset + 1
