"""Where the shards of an index are on this machine's disk."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from simhash_core.errors import UsageError
from streams.settings.settings import Settings
from streams.store.shard_directory import shard_directory

_NAME: Final = re.compile(r"shard-(\d+)")


class LocalShard(NamedTuple):
    """The directory of the store of a shard."""

    partition: int
    path: Path


def local_shards(settings: Settings, wanted: Sequence[int]) -> list[LocalShard]:
    """Return the shards that are here, or those that are ``wanted``.

    Raises ``UsageError`` where there is none, or one that is wanted is not here.
    """
    root = settings.state_path()
    shards = {
        int(match[1]): each
        for each in (sorted(root.iterdir()) if root.is_dir() else [])
        if (match := _NAME.fullmatch(each.name))
    }
    missing = sorted(set(wanted) - shards.keys())
    if missing or not shards:
        which = f"no shard {missing[0]}" if missing else "no shard of any index"
        raise UsageError(
            f"there is {which} in {root}: is it on another machine, or under another state_dir "
            f"or application_id?"
        )
    return [LocalShard(each, shards[each]) for each in sorted(set(wanted) or shards)]


def local_shard(settings: Settings, partition: int) -> LocalShard:
    """Return where a shard is, or would be."""
    path = shard_directory(settings.state_dir, settings.application_id, partition)
    return LocalShard(partition, path)
