"""The pipeline of one worker: everything between the two agents' inputs and their sends.

Faust says which partitions are ours and hands over records; this module knows nothing of Faust.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Final

from simhash_core.blocks import Bucket
from simhash_core.errors import FirstseenError
from simhash_core.neighbours import Look
from simhash_core.probes import Packet, Probe
from streams.acked_producer import AckedProducer
from streams.errors import UnansweredError
from streams.fingerprint_stage import FingerprintStage, RawInput
from streams.metric_labels import TransactionOutcome
from streams.metrics import Metrics
from streams.outbox import OutboxRules, packet_record
from streams.shard_worker import ShardState, ShardWorker
from streams.topic_ids import TopicIds
from streams.transactions import FencedError

logger = logging.getLogger(__name__)

NewShard = Callable[[int], ShardWorker]
"""Makes the worker of a shard, not yet opened."""

_TAKEN_OVER: Final = 5
"""Times that a shard is taken over again for one batch, while it is ours."""


class Pipeline:
    """The shards of a worker and the stage that feeds them."""

    def __init__(
        self,
        *,
        stage: FingerprintStage,
        topic_ids: TopicIds,
        producer: AckedProducer,
        rules: OutboxRules,
        new_shard: NewShard,
        session_timeout_seconds: float,
        metrics: Metrics,
    ) -> None:
        """Begin without shards; ``assign`` brings them."""
        self.metrics = metrics
        self.failure: FirstseenError | None = None
        self.crash: Callable[[BaseException], object] = logger.critical
        self.measure: Callable[[], object] = lambda: None
        self._stage = stage
        self._topic_ids = topic_ids
        self._producer = producer
        self._rules = rules
        self._new_shard = new_shard
        self._session_timeout_seconds = session_timeout_seconds
        self._shards: dict[int, ShardWorker] = {}
        self._opening: dict[int, asyncio.Task[None]] = {}
        self._assigned = False
        self._assigned_at = 0.0
        self._moved = asyncio.Event()

    @property
    def ready(self) -> bool:
        """Whether partitions are assigned and every shard of ours is open."""
        return self._assigned and not self._opening

    def opening(self) -> bool:
        """Whether shards of ours have yet to catch up with their changelogs."""
        return bool(self._opening)

    def why_not_ready(self) -> str | None:
        """Return what ``ready`` waits for; None where it is ready. From any thread."""
        opening = sorted(self._opening.copy())
        if opening:
            shards = ", ".join(map(str, opening))
            return f"{len(opening)} of {len(self._shards)} shards are catching up: {shards}"
        return None if self._assigned else "no partitions assigned yet"

    def fail(self, error: FirstseenError) -> None:
        """Keep the first failure for the exit message, and end the worker."""
        if self.failure is None:
            self.failure = error
            self.crash(error)

    async def assign(self, partitions: Iterable[int]) -> None:
        """Begin to open the shards of these partitions; all others are closed.

        Returns at once: recovery can take long, and the group must not wait for it. ``lookup``
        waits instead.
        """
        await self.release("its partition was assigned anew")
        self._assigned_at = time.monotonic()
        for partition in sorted(set(partitions)):
            shard = self._shards[partition] = self._new_shard(partition)
            self._opening[partition] = asyncio.create_task(self._open(shard))
        self.metrics.assigned_shards(len(self._shards))
        self.metrics.opening_shards(len(self._opening))
        self._moved = asyncio.Event()
        self._assigned = True
        if not self._shards:
            logger.info("ready: no shards are assigned to this worker")

    def interrupt(self) -> None:
        """Let recoveries and sends that are under way end soon; none begins any more."""
        self._producer.give_up()
        self._interrupt_shards()

    def _interrupt_shards(self) -> None:
        for shard in self._shards.values():
            shard.interrupt()

    async def release(self, why: str) -> None:
        """Close all shards, each after the batch that is under way."""
        self._assigned = False
        self._moved.set()
        self._interrupt_shards()
        if self._opening:
            await asyncio.wait(list(self._opening.values()))
        for partition, shard in self._shards.items():
            await shard.close()
            logger.info("shard %d closed: %s", partition, why)
        self._shards.clear()
        self.metrics.assigned_shards(0)

    async def fingerprint(self, inputs: Sequence[RawInput]) -> set[str]:
        """Read, fingerprint and send on raw records; returns when the probes are acknowledged.

        Returns the topics that were deleted and made again since the records before: nothing of
        these inputs was sent then, and those topics have to be read from their beginnings.
        """
        topics = {source.topic for source, _ in inputs}
        for topic in topics:
            if self._stage.topic_id(topic) is None:
                self._stage.identify(topic, await self._topic_ids.of(topic))
        # The records were fetched before: if the topic still has the id that they are sent under,
        # they are of that topic. To ask costs no time, as it is done beside the fingerprinting.
        asked = {
            topic: asyncio.create_task(self._topic_ids.of(topic))
            for topic in topics
            if self._stage.topic_id(topic)  # "": this broker has none
        }
        await asyncio.sleep(0)
        records = [
            packet_record(packet, partition, self._rules)
            for partition, packet in self._stage.packets(inputs)
        ]
        renewed = set()
        for topic, answer in asked.items():
            topic_id = await answer
            if topic_id != self._stage.topic_id(topic):
                self._stage.identify(topic, topic_id)
                renewed.add(topic)
        if not renewed:
            with self.metrics.stage("send"):
                await self._producer.send(records)
        return renewed

    async def next_probe(self, partition: int) -> int | None:
        """Return the probes offset that a shard waits for, once it is open; None: not ours."""
        opening = self._opening.get(partition)
        if opening is not None:
            await asyncio.wait([opening])
        shard = self._shards.get(partition)
        return None if shard is None else shard.next_offset

    async def lookup(self, partition: int, values: Sequence[tuple[int, bytes | None]]) -> bool:
        """Decide the packets of one probes partition, given as offset and value.

        False when the shard is not ours (any more): the records must not be acknowledged.
        """
        shard = self._shards.get(partition)
        opening = self._opening.get(partition)
        if opening is not None:
            await asyncio.wait([opening])
        if shard is None or self._shards.get(partition) is not shard:
            return False
        packets: list[tuple[int, Packet]] = []
        with self.metrics.failures("lookup"):
            for offset, value in values:
                where = f"{self._rules.probes_topic}/{partition}@{offset}"
                packets.append((offset, self._rules.codec.decode(value, where)))

        async def decide() -> bool:
            await shard.open()
            return await shard.process(packets)

        return await self._while_ours(shard, decide)

    async def look(
        self,
        probe: Probe,
        route: Mapping[int, Sequence[Bucket]],
        most: int,
        threads: Executor,
    ) -> dict[int, Look | str]:
        """Say what a document would meet at each shard of ``route``, or why that is not known.

        Nothing is changed; see ``ShardWorker.look``.
        """
        found: dict[int, Look | str] = {}
        for partition, buckets in route.items():
            shard = self._shards.get(partition)
            if shard is None:
                found[partition] = "this worker does not have it"
            elif partition in self._opening:
                found[partition] = "it is catching up with its changelog: try again"
            else:
                found[partition] = await shard.look(probe, buckets, most, threads)
        return found

    def shards(self) -> dict[int, tuple[ShardState, bool]]:
        """Return each shard's state, and whether it is still being opened. From any thread."""
        opening = self._opening.copy()
        return {
            partition: (shard.state, partition in opening)
            for partition, shard in sorted(self._shards.copy().items())
        }

    async def _while_ours(
        self, shard: ShardWorker, work: Callable[[], Coroutine[None, None, bool]]
    ) -> bool:
        """Do ``work`` on a shard, again after a fence or no answer; False when it has moved away.

        Mostly a fence says that the shard has moved, and the group is about to say so too. But an
        old owner that slept just before it fenced us fences the right one when it wakes.
        """
        trouble: FencedError | UnansweredError | None = None
        for _ in range(_TAKEN_OVER):
            try:
                return await work()
            except InterruptedError:
                return False
            except (FencedError, UnansweredError) as error:
                trouble = error
                if not await self._still_ours(shard, error):
                    return False
                logger.warning("shard %d is still assigned here: opened again", shard.partition)
        assert trouble is not None
        if isinstance(trouble, UnansweredError):
            raise trouble
        raise FencedError(
            f"shard {shard.partition} was taken over {_TAKEN_OVER} times while it was assigned to "
            "this worker: does another group use this application id?"
        )

    async def _still_ours(self, shard: ShardWorker, error: FencedError | UnansweredError) -> bool:
        """Close a shard after trouble; after a fence, wait for the group to say who has it."""
        moved = self._moved
        fenced = isinstance(error, FencedError)
        logger.warning("shard %d closed: %s", shard.partition, error)
        outcome = TransactionOutcome.FENCED if fenced else TransactionOutcome.UNANSWERED
        self.metrics.transaction(outcome)
        await shard.close()
        if fenced:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(moved.wait(), self._session_timeout_seconds)
        return not moved.is_set() and self._shards.get(shard.partition) is shard

    async def _open(self, shard: ShardWorker) -> None:
        async def opened() -> bool:
            await shard.open()
            return True

        started = time.monotonic()
        logger.info("shard %d opening: it was assigned to this worker", shard.partition)
        try:
            if await self._while_ours(shard, opened):
                self.metrics.recovered(time.monotonic() - started)
                logger.info(
                    "shard %d open: %d documents, next probes offset %d",
                    shard.partition,
                    shard.documents,
                    shard.next_offset,
                )
            else:
                logger.info("shard %d moved away while it was opened", shard.partition)
        except FirstseenError as error:
            self.fail(error)
        except Exception as error:
            logger.exception("shard %d cannot be opened", shard.partition)
            self.fail(FirstseenError(f"shard {shard.partition} cannot be opened: {error!r}"))
        finally:
            del self._opening[shard.partition]
            self.metrics.opening_shards(len(self._opening))
            if self.ready and self.failure is None:
                seconds = time.monotonic() - self._assigned_at
                logger.info("ready: %d shards are open after %.1f s", len(self._shards), seconds)
