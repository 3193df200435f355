"""Lag: from a position to the end of a partition, never counting records that are not there."""

from __future__ import annotations

import pytest

from streams.monitoring.health import PartitionLag, lag_of
from streams.topics.watermarks import Watermarks


@pytest.mark.parametrize(
    ("position", "watermarks", "lag"),
    [
        pytest.param(4, Watermarks(0, 10, 10), PartitionLag(4, 6, 6), id="behind"),
        pytest.param(10, Watermarks(0, 10, 10), PartitionLag(10, 0, 0), id="at the end"),
        pytest.param(4, Watermarks(7, 10, 10), PartitionLag(7, 3, 3), id="records were deleted"),
        pytest.param(
            None, Watermarks(7, 10, 10), PartitionLag(7, 3, 3), id="nothing committed yet"
        ),
        pytest.param(0, Watermarks(0, 0, 0), PartitionLag(0, 0, 0), id="an empty partition"),
        pytest.param(4, Watermarks(0, 6, 10), PartitionLag(4, 6, 2), id="an open transaction"),
        pytest.param(
            50, Watermarks(0, 10, 10), PartitionLag(50, 0, 0), id="a topic that was re-created"
        ),
    ],
)
def test_lag_counts_from_the_later_of_position_and_start(
    position: int | None, watermarks: Watermarks, lag: PartitionLag
) -> None:
    assert lag_of(position, watermarks) == lag
