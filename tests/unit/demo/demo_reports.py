"""Figures of a demo, for what shows them."""

from __future__ import annotations

import msgspec

from streams.demo.summary import DemoReport, StageTime

REPORT = DemoReport(
    input=None,
    seed=1,
    profile="wide",
    documents=100,
    unique=21,
    undecidable=1,
    duplicates=39,
    exact_duplicates=9,
    near_duplicates=30,
    dead_letters=40,
    dead_letters_by_reason={"not_json": 40},
    tombstones=0,
    too_long=0,
    lost=0,
    repeated=0,
    precision=1.0,
    recall=0.975,
    swapped=2,
    by_kind=None,
    seconds=2.0,
    documents_per_second=50.0,
    shards=4,
    worker_cpu_seconds=1.5,
    stages=(StageTime("lookup", 7, 0.5),),
)


def demo_report(**changes: object) -> DemoReport:
    """A demo of 100 records, with some figures changed."""
    return msgspec.structs.replace(REPORT, **changes)
