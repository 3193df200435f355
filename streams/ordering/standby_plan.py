"""Which workers keep standbys of which shards: a function of the group's members, the same for all.

A standby is worth most on the worker that gets the shard when its owner is killed. That one is
known before: the sticky assignor of the group (librdkafka 2) gives the partitions of a member that
is gone, the highest first, each to the member that has the fewest then, and of equals to the first
by name. Where the group decides otherwise, the new owner opens the shard as if there were no
standby.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping


def standby_plan(owned: Mapping[str, Collection[int]], copies: int) -> dict[int, tuple[str, ...]]:
    """Return who is to keep standbys of each shard that has an owner, the likely heir first.

    ``owned``: the shards of each member of the group, by its name; members without any are in it.
    ``copies``: standbys of a shard; fewer where the group has fewer members beside the owner.
    """
    plan: dict[int, tuple[str, ...]] = {}
    for owner, shards in owned.items():
        loads = {name: len(each) for name, each in owned.items() if name != owner}
        if not loads:
            continue
        for partition in sorted(shards, reverse=True):
            by_load = sorted(loads, key=lambda name: (loads[name], name))
            plan[partition] = tuple(by_load[:copies])
            loads[by_load[0]] += 1
    return plan
