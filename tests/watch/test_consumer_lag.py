"""Lag: from where a worker stands to the end of the log, never counting what is not there."""

from __future__ import annotations

import pytest

from streams.broker_watermarks import Watermarks
from streams.consumer_lag import Lag, lag_of


@pytest.mark.parametrize(
    ("position", "watermarks", "lag"),
    [
        pytest.param(4, Watermarks(0, 10, 10), Lag(4, 6, 6), id="behind"),
        pytest.param(10, Watermarks(0, 10, 10), Lag(10, 0, 0), id="at the end"),
        pytest.param(4, Watermarks(7, 10, 10), Lag(7, 3, 3), id="the log begins later by now"),
        pytest.param(None, Watermarks(7, 10, 10), Lag(7, 3, 3), id="nothing read, ever"),
        pytest.param(0, Watermarks(0, 0, 0), Lag(0, 0, 0), id="an empty log"),
        pytest.param(4, Watermarks(0, 6, 10), Lag(4, 6, 2), id="an open transaction"),
        pytest.param(50, Watermarks(0, 10, 10), Lag(50, 0, 0), id="a topic made again"),
    ],
)
def test_lag(position: int | None, watermarks: Watermarks, lag: Lag) -> None:
    """Given a position and the ends of a log, then lag counts from the later of position and start
    to the end; and what can be read of it, to the first open transaction.
    """
    assert lag_of(position, watermarks) == lag
