"""When simulated shards move, the phases of an acquisition are in order."""

from __future__ import annotations

import pytest

from streams.monitoring.metrics import AcquisitionPhase
from streams.worker.shard import Acquisition
from tests.worker_simulation.scenario import draw_worker_scenario
from tests.worker_simulation.world import simulate

SEEDS = 3


def test_phases_come_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    over: list[tuple[dict[AcquisitionPhase, float], dict[AcquisitionPhase, float]]] = []
    seconds = Acquisition.seconds

    def noted(acquisition: Acquisition) -> dict[AcquisitionPhase, float]:
        found = seconds(acquisition)
        over.append((found, dict(acquisition._ended)))
        return found

    monkeypatch.setattr(Acquisition, "seconds", noted)
    for seed in range(SEEDS):
        simulate(draw_worker_scenario(seed))

    found = {phase for taken, _ in over for phase in taken}
    assert found == set(AcquisitionPhase)
    for taken, ended in over:
        assert list(taken) == [phase for phase in AcquisitionPhase if phase in taken]
        # The first output may come before the log is read to its end.
        output = ended.pop(AcquisitionPhase.OUTPUT, None)
        in_order = [ended[phase] for phase in AcquisitionPhase if phase in ended]
        assert in_order == sorted(in_order)
        assert output is None or output >= ended[AcquisitionPhase.SESSION]
