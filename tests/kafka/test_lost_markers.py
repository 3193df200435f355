"""In the Kafka that the tests use, a committed transaction always has an end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rigs.brokers.lost_markers import hung_transactions


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_broker_that_was_away_gets_the_end_of_a_transaction(
    kafka_required: None,  # noqa: ARG001 - skips
    tmp_path: Path,
) -> None:
    """A Kafka with KAFKA-20734 (4.3.0, 4.3.1, 4.4.0) fails here."""
    assert hung_transactions(tmp_path, rounds=1) == 0
