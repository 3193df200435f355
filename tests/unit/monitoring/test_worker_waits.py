"""What the documents of a worker wait for, in words, and when it is its own turn."""

from __future__ import annotations

import pytest

from simhash_core.log.participant import Waiting
from streams.monitoring.worker_state import NextStep, Waits


def waits_for(leader: str | None = None, shards: dict[int, str | None] | None = None) -> Waits:
    return Waits(Waiting(17, leader, shards or {}, own_turn=False))


@pytest.mark.parametrize(
    ("waits", "opening", "whom"),
    [
        (Waits(), {}, None),
        (Waits(Waiting(17, None, {3: "app.a.f00"}, own_turn=True)), {}, None),
        (
            waits_for(shards={4: None, 3: "app.a.f00"}),
            {},
            "shard 3 (last of worker app.a), shard 4 (no worker known) to report",
        ),
        (waits_for(shards={3: "app.a.f00"}), {3: ""}, "shard 3 (being opened here) to report"),
        (waits_for("app.b.f01"), {3: ""}, "the verdict of worker app.b, which leads"),
        (waits_for(), {0: ""}, "a leader: shard 0 is being opened here"),
        (waits_for(), {1: ""}, "a leader: the owner of shard 0 does not lead yet"),
    ],
)
def test_whom_documents_wait_for(waits: Waits, opening: dict[int, str], whom: str | None) -> None:
    assert waits.whom(opening) == whom


def test_of_many_shards_the_first_five_are_named() -> None:
    whom = waits_for(shards=dict.fromkeys(range(1000))).whom({}) or ""
    assert whom.startswith("shard 0 (no worker known), shard 1 ")
    assert whom.endswith("shard 4 (no worker known) and 995 more to report")


@pytest.mark.parametrize("ready", [True, False])
def test_newly_opened_shard_is_read_if_the_worker_is_ready(*, ready: bool) -> None:
    waits = Waits(steps={0: NextStep.COMMIT})
    assert waits.is_own_step(1, ready=ready) is ready
    assert waits.is_own_step(0, ready=ready)
