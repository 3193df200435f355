"""Fixtures for tests that need a broker: ``pytest_plugins = ["tests.rigs.brokers.fixtures"]``.

 - ``broker``: the test runs twice, on the embedded broker and on a real Apache Kafka;
 - ``embedded_broker``, ``kafka_broker``: the test runs on it; a session shares both;
 - ``own_kafka_broker``: a Kafka for the tests of a file, which may kill and restart it; it runs
   when a test begins;
 - ``kafka_required``: for a test that starts a ``KafkaBroker`` with its own settings.

Tests on the real Kafka have the marker ``kafka``. If it cannot run they are skipped, and the reason
is printed once; with FIRSTSEEN_REQUIRE_KAFKA=1, as in CI, they fail.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from streams.kafka.embedded_broker import EmbeddedBroker
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.kafka_broker import KafkaBroker, why_kafka_cannot_run
from tests.rigs.brokers.kafka_configuration import SHORT_SESSION, SOON_ABORTED

_KAFKA_FIXTURES = {"kafka_broker", "own_kafka_broker", "kafka_required"}
_THIS_FILE = Path(__file__)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need a real Kafka, before ``-m`` selects."""
    for item in items:
        if _KAFKA_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.kafka)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report skips of this file as raised here and not in each test, so that they make one line."""
    report = yield
    if report.skipped and call.excinfo is not None:
        for entry in call.excinfo.traceback:
            if entry.path == _THIS_FILE:
                reason = f"Skipped: {call.excinfo.value}"
                report.longrepr = (str(entry.path), entry.lineno + 1, reason)
    return report


@pytest.fixture(scope="session")
def kafka_required() -> None:
    """Skip the test if no real Kafka can run, or fail it if one is required."""
    reason = why_kafka_cannot_run()
    if reason is None:
        return
    if os.environ.get("FIRSTSEEN_REQUIRE_KAFKA") == "1":
        pytest.fail(f"FIRSTSEEN_REQUIRE_KAFKA=1, but {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def embedded_broker() -> Iterator[Broker]:
    with EmbeddedBroker() as server:
        yield Broker("embedded", server)
        assert server.is_running(), "a test has made the embedded broker abort"


@pytest.fixture(scope="session")
def kafka_broker(
    kafka_required: None,  # noqa: ARG001 - skips
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Broker]:
    server = KafkaBroker(tmp_path_factory.mktemp("kafka"), properties=SOON_ABORTED)
    server.start()
    try:
        yield Broker("kafka", server)
        assert server.is_running(), f"the shared broker ended: see {server.log_path}"
    finally:
        # Nobody reads its data again, so there is no need for an orderly stop.
        server.kill()
        server.remove_data()  # pytest keeps three runs; the log stays for a failed test


@pytest.fixture(
    scope="session",
    params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)],
)
def broker(request: pytest.FixtureRequest) -> Broker:
    chosen = request.getfixturevalue(f"{request.param}_broker")
    assert isinstance(chosen, Broker)
    return chosen


@pytest.fixture(scope="module")
def _own_kafka(
    kafka_required: None,  # noqa: ARG001 - skips
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[KafkaBroker]:
    server = KafkaBroker(tmp_path_factory.mktemp("kafka"), properties=SHORT_SESSION)
    try:
        yield server
    finally:
        server.kill()
        server.remove_data()


@pytest.fixture
def own_kafka_broker(_own_kafka: KafkaBroker) -> Broker:
    if not _own_kafka.is_running():
        _own_kafka.start()
    return Broker("kafka", _own_kafka)
