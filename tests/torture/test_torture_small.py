"""A minute of torture: what ``make torture`` does for ten, in the tests."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.torture.run import Order, torture

MINUTES = 1.0
DOCUMENTS = 6_000
FAULTS = 6
SEED = 20_262_492
SECONDS_MAX = 600

logger = logging.getLogger(__name__)


@pytest.mark.slow
@pytest.mark.timeout(SECONDS_MAX)
def test_faults_lose_repeat_and_spoil_nothing(
    kafka_required: None,  # noqa: ARG001 - skips
    tmp_path: Path,
) -> None:
    report = torture(Order(MINUTES, DOCUMENTS, FAULTS, SEED), tmp_path, logger.info)
    assert report.holds, report.as_json()
    assert len(report.faults) >= 5, report.faults
    assert report.findings.duplicates > DOCUMENTS / 10
    assert report.log["reigns"] > 1, "the leader never changed: the run was too easy"
