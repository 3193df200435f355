"""The worker's log reports a failure once, and leaves out repetitions of libraries."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from contextlib import redirect_stderr

import mode
import pytest

from simhash_core.errors import FirstseenError
from streams.kafka.client_config import LIBRDKAFKA
from streams.settings.settings import LogFormat, LogSettings
from streams.worker import worker_log
from streams.worker.app import WorkerApp
from streams.worker.worker_log import RateLimitedLog, set_up_logging


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """Return the log of the process as JSON lines; afterwards restore all loggers."""
    root, names = logging.getLogger(), ("faust", "mode", "streams.worker.app", "aiohttp", "asyncio")
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in names}
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    root.handlers[:] = []  # otherwise pytest's own would be closed
    set_up_logging(LogSettings(format=LogFormat.JSON))
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in names:
        logging.getLogger(name).setLevel(levels[name])


def lines(log: io.StringIO) -> list[dict[str, str]]:
    return [json.loads(line) for line in log.getvalue().splitlines()]


def crash(error: BaseException) -> None:
    """Crash two of Faust's services, one inside the other, as an agent in an app does."""

    async def both() -> None:
        inner, outer = mode.Service(), mode.Service()
        await inner.crash(error)
        await outer.crash(error)

    asyncio.run(both())


def test_line_is_json_with_its_traceback(log: io.StringIO) -> None:
    try:
        raise KeyError("中文")  # noqa: TRY301 - it is what is logged
    except KeyError:
        logging.getLogger("streams.x").exception("failed: %s", "here")
    (line,) = lines(log)
    said = {"level": "error", "logger": "streams.x", "message": "failed: here"}
    assert said.items() <= line.items()
    assert line["time"][10] == "T"
    assert line["time"].endswith("Z")
    assert "KeyError: '中文'" in line["traceback"]


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize(
    ("form", "mark"), [(LogFormat.TEXT, " INFO process 3: "), (LogFormat.JSON, '"process": 3')]
)
def test_lines_name_their_process(form: LogFormat, mark: str) -> None:
    with redirect_stderr(io.StringIO()) as stream:
        set_up_logging(LogSettings(format=form), 3)
        logging.getLogger("streams.x").info("ready")
    assert mark in stream.getvalue()


def test_failure_of_ours_is_left_to_the_last_line(log: io.StringIO) -> None:
    """The worker reports the failure at its end, so Faust's report of it is left out."""
    crash(FirstseenError("no room on the disk"))
    try:
        raise ValueError("second") from FirstseenError("no room on the disk")  # noqa: TRY301
    except ValueError as error:
        crash(error)
    assert lines(log) == []


def test_defect_is_logged_once_with_its_traceback(log: io.StringIO) -> None:
    try:
        raise KeyError("surprise")  # noqa: TRY301 - it is what they crash of
    except KeyError as error:
        crash(error)
    (line,) = lines(log)
    assert line["level"] == "critical"
    assert "Crashed reason" not in line["message"]
    assert "KeyError('surprise')" in line["message"]
    assert "test_worker_log.py" in line["traceback"]


def test_what_a_call_reports_as_well_is_left_out(log: io.StringIO) -> None:
    """Other lines of librdkafka are logged, each kind once in ten seconds."""
    librdkafka = logging.getLogger(LIBRDKAFKA)
    librdkafka.error("%s [%s] %s", "TXNERR", "firstseen#producer-3", "Current transaction failed")
    for port in (9092, 9093, 9094):
        librdkafka.error("%s [%s] %s", "FAIL", f"firstseen#consumer-{port}", f"Connect to {port}")
    (line,) = lines(log)
    assert "FAIL" in line["message"]


def test_app_is_one_of_fausts_loggers() -> None:
    assert WorkerApp.__module__ in worker_log._FAUST


def test_rate_limited_log_has_a_line_each_time_the_count_has_doubled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rare = RateLimitedLog(logging.getLogger("rare"), "%d skipped; the last: %s")
    with caplog.at_level(logging.WARNING):
        for number in range(1, 101):
            rare.note(f"record {number}")
            rare.note("none", 0)
        rare.note("batch", 50)
    counts = [1, 2, 4, 8, 16, 32, 64]
    assert caplog.messages[:-1] == [f"{n} skipped; the last: record {n}" for n in counts]
    assert caplog.messages[-1] == "150 skipped; the last: batch"


def test_a_refused_connection_is_logged_with_the_setting(log: io.StringIO) -> None:
    library = logging.getLogger(LIBRDKAFKA)
    said = "b:9093/1: SASL authentication error: Authentication failed during re-authentication"
    library.error("%s [%s] %s", "FAIL", "app#producer-1", said)
    library.error("%s [%s] %s", "FAIL", "app#producer-1", "broker:9093/1: Connect failed")
    refused, failed = (line["message"] for line in lines(log))
    assert f"{said}. kafka.sasl.password: the broker refuses kafka.sasl.username" in refused
    assert failed.endswith("Connect failed")
