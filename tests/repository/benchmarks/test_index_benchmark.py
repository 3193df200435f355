"""The benchmark of the index runs, and judges what it measures by the goals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.index.__main__ import main
from benchmarks.index.figures import MILLION, Measured, goals_of


def test_a_small_index_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Given few documents, then one object of JSON has all goals by their keys, those measured that
    can be, and the figures of each index.
    """
    arguments = ["--documents", "3000", "--flood", "5000", "--profile", "classic"]

    main([*arguments, "--without-peers", "--json", "-", "--state-dir", str(tmp_path)])

    found = json.loads(capsys.readouterr().out)
    assert list(found["goals"]) == list(goals_of([]))
    assert found["goals"]["classic_disk_bytes_a_document"]["value"] > 50
    assert found["goals"]["wide_disk_bytes_a_document"]["met"] is None
    uniform, skewed, flooded = found["figures"]
    assert (uniform["skewed"], skewed["skewed"]) == (False, True)
    keys = {"cpu_us", "open_seconds", "rebuilt_per_cpu_second", "lines_per_cpu_second"}
    assert keys <= uniform["values"].keys()
    assert flooded["values"]["flood_uniques"] == 1
    assert found["goals"]["classic_flood_last_beside_first"]["value"] > 0
    assert list(tmp_path.iterdir()) == []


def test_figures_are_judged_by_the_goals() -> None:
    """Given figures, then ratios are of the same number of documents, the largest that both have;
    and a goal is met by the side of it that is better.
    """

    def measured(who: str, documents: int, *, skewed: bool = False, **values: float) -> Measured:
        return Measured(who=who, documents=documents, skewed=skewed, values=values)

    goals = goals_of(
        [
            measured("classic", 100_000, cpu_us=2, look_up_cpu_us=1),
            measured("classic", 100_000, skewed=True, cpu_us=4, look_up_cpu_us=3),
            measured("classic", MILLION, cpu_us=4, disk_bytes=119),
            measured("classic", 10 * MILLION, cpu_us=7, open_seconds=6),
            measured("simhash", 100_000, cpu_us=500),
            measured("simhash", MILLION, cpu_us=16),
        ]
    )

    values = {key: (each["value"], each["met"]) for key, each in goals.items() if each["value"]}
    assert values == {
        "classic_times_faster_than_simhash": (4, False),
        "classic_cpu_10m_beside_1m": (1.75, True),
        "classic_look_up_skewed_beside_uniform": (3, False),
        "classic_disk_bytes_a_document": (119, True),
        "classic_open_seconds_at_10m": (6, False),
    }
