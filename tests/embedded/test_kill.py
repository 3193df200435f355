"""Workers killed by SIGKILL while documents come. ``kill_rounds`` has what a round is, and more of
them: ``python -m tests.rigs.workers.kill_rounds --rounds 20 --documents 20000 --broker kafka``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.kill_rounds import run_rounds

ROUNDS = 4
DOCUMENTS = 3_000


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_kills_lose_and_spoil_nothing(broker: Broker, tmp_path: Path) -> None:
    figures = run_rounds(broker, tmp_path, rounds=ROUNDS, documents=DOCUMENTS, seed=7)
    assert figures.problems == []
    assert (figures.lost, figures.own_original) == (0, 0)
    assert (figures.near_uniques, figures.ungrounded) == (0, 0)
    if broker.supports_transactions:
        assert figures.repeated == 0
    assert figures.kills == ROUNDS
    assert figures.kills_with_records_under_way > 0, "all kills came when nothing was to be done"
    assert figures.unique + figures.duplicates + figures.dead_letters == DOCUMENTS
    assert min(figures.unique, figures.duplicates, figures.dead_letters) > 0
