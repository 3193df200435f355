"""Where a worker's time went, read from its metrics."""

from __future__ import annotations

from collections import defaultdict

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from streams.monitoring.metric_labels import Stage

_STAGES = "firstseen_stage_duration_seconds"
_PROCESSOR = "process_cpu_seconds_total"


class StageTime(msgspec.Struct, frozen=True):
    """The time of one step: how many batches it did, in how many seconds altogether."""

    stage: str
    batches: int
    seconds: float


class WorkerTimes(msgspec.Struct, frozen=True):
    """The steps that took any time, in the order of the work; and the processor's time in all."""

    stages: tuple[StageTime, ...]
    cpu_seconds: float


def worker_times(exposition: str) -> WorkerTimes:
    """Read metrics in the text format."""
    sums: dict[str, float] = {}
    counts: defaultdict[str, int] = defaultdict(int)
    cpu_seconds = 0.0
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            if sample.name == f"{_STAGES}_sum":
                sums[sample.labels["stage"]] = sample.value
            elif sample.name == f"{_STAGES}_count":
                counts[sample.labels["stage"]] = int(sample.value)
            elif sample.name == _PROCESSOR:
                cpu_seconds = sample.value
    stages = tuple(
        StageTime(stage, counts[stage], round(seconds, 3))
        for stage, seconds in sums.items()
        if counts[stage] and stage != Stage.WATCH  # which is done beside the work
    )
    return WorkerTimes(stages, round(cpu_seconds, 3))
