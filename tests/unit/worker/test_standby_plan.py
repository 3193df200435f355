"""Who keeps standbys of which shards."""

from __future__ import annotations

from collections import Counter

import pytest

from streams.worker.standbys import standby_plan


def test_never_the_owner_and_each_other_member_once() -> None:
    """Given three members, then each shard has its standbys on others, each another one."""
    owned = {"a": {0, 3}, "b": {1, 4}, "c": {2, 5}}
    plan = standby_plan(owned, 2)
    assert plan.keys() == set(range(6))
    for owner, shards in owned.items():
        for partition in shards:
            assert owner not in plan[partition]
            assert len(set(plan[partition])) == 2


def test_the_shards_of_one_are_spread_over_all_others() -> None:
    """Given four members with as many shards, then those of each are shared by the other three."""
    owned = {name: set(range(at * 6, at * 6 + 6)) for at, name in enumerate("abcd")}
    plan = standby_plan(owned, 1)
    for owner, shards in owned.items():
        heirs = Counter(plan[partition][0] for partition in shards)
        assert heirs == {name: 2 for name in owned if name != owner}


def test_the_heir_is_who_the_group_gives_the_shard_to() -> None:
    """Given members with different loads; the sticky assignor gives the highest partition of one
    that is gone to the member with the fewest, of equals to the first by name.
    """
    owned = {"a": {0, 1, 2}, "b": {3, 4}, "c": {5}, "d": set[int]()}
    plan = standby_plan(owned, 1)
    assert {partition: plan[partition] for partition in owned["a"]} == {
        2: ("d",),
        1: ("c",),
        0: ("d",),
    }


@pytest.mark.parametrize(("owned", "copies"), [({}, 1), ({"a": {0, 1}}, 1), ({"a": {0}}, 3)])
def test_nobody_stands_by_for_itself(owned: dict[str, set[int]], copies: int) -> None:
    """Given no other member, then there is no standby."""
    assert standby_plan(owned, copies) == {}


def test_fewer_members_than_copies() -> None:
    """Given two members and three copies, then the other one has the only standby."""
    assert standby_plan({"a": {0}, "b": set()}, 3) == {0: ("b",)}
