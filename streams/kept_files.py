"""The segment files of a worker's shards and standbys: made one by one, beside the work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from simhash_core.errors import FirstseenError
from simhash_core.log.participant import Participant
from streams.intake.raw_batches import RawArrival
from streams.output.put_out import PutOut
from streams.standby_stores import StandbyStores
from streams.store.segment_keeper import KeptShard, SegmentKeeper


class KeptFiles:
    """On the event loop."""

    def __init__(
        self,
        participant: Participant[RawArrival],
        put_out: PutOut,
        standbys: StandbyStores,
        on_failure: Callable[[FirstseenError], None],
    ) -> None:
        """Begin with nothing to do."""
        self._participant = participant
        self._put_out = put_out
        self._standbys = standbys
        self._on_failure = on_failure
        self._keeper = SegmentKeeper(participant.index)
        self._task: asyncio.Task[None] | None = None

    def keep(self) -> None:
        """Make a segment file in a thread, if there is one to make, and none is being made."""
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._keep_one())

    async def _keep_one(self) -> None:
        try:
            await self._keeper.step(self._kept)
        except FirstseenError as error:
            self._on_failure(error)

    def _kept(self) -> list[KeptShard]:
        stores = self._put_out.stores
        owned = [
            KeptShard(shard.slot, stores[partition], segments)
            for partition, shard in self._participant.shards.items()
            if partition in stores and (segments := stores[partition].segments) is not None
        ]
        return [*owned, *self._standbys.kept()]
