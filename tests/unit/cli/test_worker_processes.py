"""The rules of ``worker --processes``: number, settings, restarts and end of the processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from streams.cli.worker_processes import BackOff, available_cores, exit_code, settings_of, worst_of
from streams.settings.settings import Settings, WebSettings

# ---- the number of processes


@pytest.mark.parametrize(
    ("limits", "cores"),
    [
        ({}, 8),
        ({"": "max 100000"}, 8),
        ({"a/b": "300000 100000"}, 3),
        ({"a": "250000 100000", "a/b": "max 100000"}, 2),
        ({"a": "400000 100000", "a/b": "600000 100000"}, 4),
        ({"a/b": "20000 100000"}, 1),
        ({"a/b": "1600000 100000"}, 8),
        ({"a/b": "nonsense"}, 8),
        ({"other": "100000 100000"}, 8),
    ],
)
def test_auto_is_the_lowest_of_affinity_and_limits(
    limits: dict[str, str], cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(8)), raising=False)
    membership = tmp_path / "membership"
    membership.write_text("1:cpu:/x\n0::/a/b\n")
    for group, limit in limits.items():
        (tmp_path / "groups" / group).mkdir(parents=True, exist_ok=True)
        (tmp_path / "groups" / group / "cpu.max").write_text(limit + "\n")

    assert available_cores(tmp_path / "groups", membership) == cores


# ---- the settings of each


def test_each_process_has_its_own_directory_port_name_and_address() -> None:
    machine = Settings(
        state_dir=Path("/var/lib/firstseen"),
        group_instance_id="machine-1",
        web=WebSettings(port=7000, url="https://machine-1:7000/firstseen/"),
    )
    for number in range(3):
        url = f"https://machine-1:{7001 + number}/firstseen/"
        assert settings_of(machine, number) == replace(
            machine,
            state_dir=machine.state_dir / f"process-{number}",
            group_instance_id=f"machine-1-{number}",
            web=replace(machine.web, port=7001 + number, url=url),
        )


@pytest.mark.parametrize(
    ("url", "of_the_first"),
    [
        (None, None),
        ("http://machine/", "http://machine:6067/"),
        ("http://[fd00::1]:6066", "http://[fd00::1]:6067"),
        ("http://[fd00::1]/x", "http://[fd00::1]:6067/x"),
    ],
)
def test_an_address_gets_the_port_of_its_process(url: str | None, of_the_first: str | None) -> None:
    assert settings_of(Settings(web=WebSettings(url=url)), 0).web.url == of_the_first


# ---- restarts and exit codes


@pytest.mark.parametrize(
    ("seconds_run", "waits"),
    [
        ([2] * 8, [1, 2, 4, 8, 16, 32, 60, 60]),
        ([0, 0, 59.9, 60, 0, 3600], [1, 2, 4, 1, 2, 1]),
    ],
)
def test_waits_double_up_to_a_minute_and_begin_again_after_a_calm_one(
    seconds_run: list[float], waits: list[float]
) -> None:
    back_off = BackOff()
    assert [back_off.seconds(ran) for ran in seconds_run] == waits


@pytest.mark.parametrize(
    ("returncode", "stopping", "code"),
    [
        (0, False, 0),
        (78, True, 78),
        (143, True, 143),
        (-15, True, 0),
        (-15, False, 143),
        (-9, True, 143),
        (-9, False, 137),
        (-2, True, 130),
        (-11, True, 139),
    ],
)
def test_exit_code_of_a_process(returncode: int, stopping: bool, code: int) -> None:
    assert exit_code(returncode, stopping=stopping) == code


@pytest.mark.parametrize(
    ("codes", "worst"),
    [
        ([0, 0], 0),
        ([0, 130, 0], 130),
        ([130, 143], 143),
        ([143, 69], 69),
        ([69, 1], 1),
        ([139, 0], 139),
        ([1, 2], 2),
        ([2, 78, 139], 78),
    ],
)
def test_the_worst_code_is_the_one_that_needs_most(codes: list[int], worst: int) -> None:
    assert worst_of(codes) == worst_of(reversed(codes)) == worst
