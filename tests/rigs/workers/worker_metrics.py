"""Reads the metrics of real workers, and waits for values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from prometheus_client.parser import text_string_to_metric_families

from streams.demo.worker_process import WorkerProcessError
from tests.rigs import waiting
from tests.rigs.workers.stream_harness import END_SECONDS, Worker

LAG = "firstseen_consumer_lag_messages"

Labels = frozenset[tuple[str, str]]


def samples(worker: Worker) -> dict[tuple[str, Labels], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(worker.metrics())
        for sample in family.samples
    }


def value(worker: Worker, name: str, **labels: str) -> float:
    return samples(worker)[name, frozenset(labels.items())]


def lags(worker: Worker) -> dict[tuple[str, int], float]:
    return {
        (dict(labels)["topic"], int(dict(labels)["partition"])): lag
        for (name, labels), lag in samples(worker).items()
        if name == LAG
    }


def await_that(
    what: str, holds: Callable[[], bool], worker: Worker, seconds: float = END_SECONDS
) -> None:
    waiting.await_that(holds, seconds, shows=lambda: f"not so: {what}; {worker.log_text()}")


def gauge(worker: Worker, name: str) -> float:
    """Return a value without labels; 0 while the worker does not answer yet."""
    worker.check()
    with suppress(WorkerProcessError):
        return value(worker, name)
    return 0


def shards_of(worker: Worker) -> int:
    return int(gauge(worker, "firstseen_assigned_shards"))


def await_shared(workers: Sequence[Worker], shards: int) -> None:
    def shared() -> bool:
        counts = [shards_of(worker) for worker in workers]
        return sum(counts) == shards and all(counts)

    await_that(f"{shards} shards are shared", shared, workers[0])
    for worker in workers:
        worker.await_ready()


def await_leader(workers: Sequence[Worker]) -> Worker:
    found: list[Worker] = []

    def one_leads() -> bool:
        found[:] = [worker for worker in workers if gauge(worker, "firstseen_leader")]
        return len(found) == 1

    await_that("one worker leads", one_leads, workers[0])
    return found[0]
