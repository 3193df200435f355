"""The owner of one shard: opens it, handles batches of its probes partition, commits them.

One instance is one assignment of the shard to a worker. After a move the old instance may go on
(a *zombie*), with its own ``Shard`` and its own disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from functools import partial

from simhash_core.effects import Effect, Emit, EmitDeadLetter, Remember, Send
from simhash_core.entries import Change, PutParked
from simhash_core.memory_table import MemoryBlockTable
from simhash_core.probes import Message
from simhash_core.shard import owned_buckets
from tests.simulation.broker import Batch, FencedError, pack
from tests.simulation.changelog import Disk, Journal, replay
from tests.simulation.narration import tell_packet
from tests.simulation.protocol import ChangelogWriting
from tests.simulation.scenario import Delivery
from tests.simulation.sketches import CONFIRMATION
from tests.simulation.stage import Reached, Stage


class Phase(Enum):
    """What an owner does at its next step."""

    FENCE = auto()
    READ = auto()
    POLL = auto()
    COMMIT = auto()
    PUBLISH = auto()
    STOPPED = auto()


class ShardOwner:
    """One assignment of a shard to a worker."""

    def __init__(
        self,
        stage: Stage,
        partition: int,
        worker: int,
        disk: Disk,
        when_fenced: Callable[[ShardOwner], None],
    ) -> None:
        """Begin closed; ``disk`` is what the worker has of this shard."""
        schedule, broker, protocol = stage.schedule, stage.broker, stage.protocol
        self.slowness = schedule.draw_slowness()
        self.partition = partition
        self.worker = worker
        self.fails_next_commit = False
        self._schedule = schedule
        self._broker = broker
        self._protocol = protocol
        self._witness = stage.witness
        self._reached = stage.reached
        self._placement = stage.scenario.placement
        self._disk = disk
        self._transactional = stage.scenario.delivery is Delivery.EXACTLY_ONCE
        self._batch_most = stage.scenario.batch_most
        self._when_fenced = when_fenced
        self._epoch = 0
        self._opening = [Phase.FENCE, Phase.READ]
        if not protocol.fence_before_reading:
            self._opening.reverse()
        self.phase = self._opening[0]
        self._unwritten: list[tuple[int, list[Change]]] = []
        self._publications: deque[Callable[[], None]] = deque()
        self._log = broker.probes[partition]
        self._log.readers.append(self)
        schedule.ready(self)

    # ------------------------------------------------------------ steps

    def step(self) -> None:
        """Do what the phase says."""
        match self.phase:
            case Phase.FENCE:
                self._epoch = self._broker.fence(self.partition)
                self._opened(Phase.FENCE)
            case Phase.READ:
                self._read()
                self._opened(Phase.READ)
                self._finish_journal()
            case Phase.POLL:
                if self._poll():
                    self._schedule.ready(self)
            case Phase.COMMIT:
                self._try_commit()
                self._schedule.ready(self)
            case Phase.PUBLISH:
                self._publish()
                self._schedule.ready(self)
            case Phase.STOPPED:
                pass

    def stop(self, *, crash: bool) -> None:
        """End at once; in a crash what is not on disk yet is lost."""
        if self.phase is Phase.STOPPED:
            return
        self.phase = Phase.STOPPED
        self._log.readers.remove(self)
        if not crash:
            self._write_to_disk()

    def _finish_journal(self) -> None:
        """Write out again what the last journal record holds: a crash may have cut it short.

        Before anything else, for the next batch puts its own journal record in place of that one.
        """
        journal = self._broker.changelogs[self.partition].last_journal()
        if journal is not None and self.phase is Phase.POLL:
            self._batch = Batch(self.next_offset, [], [], list(journal.changes))
            log = self._broker.changelogs[self.partition]
            self._publications = deque(partial(log.append, [change]) for change in journal.changes)
            self.phase = Phase.PUBLISH
            self._reached[Reached.JOURNAL] += 1

    def recovered_from_changelog(self) -> MemoryBlockTable:
        """Return the table that the changelog alone gives, without a disk."""
        log = self._broker.changelogs[self.partition]
        disk = Disk()
        disk.write(log.end, replay(log.tail(0), self._protocol.changelog_writing))
        return self._table_of(disk)

    def _table_of(self, disk: Disk) -> MemoryBlockTable:
        table = MemoryBlockTable(partial(owned_buckets, self._placement, self.partition))
        table.commit(disk.changes())
        return table

    def _opened(self, phase: Phase) -> None:
        done = self._opening.index(phase) + 1
        self.phase = self._opening[done] if done < len(self._opening) else Phase.POLL
        self._schedule.ready(self)

    def _read(self) -> None:
        """Open the shard from the disk and the tail of the changelog, or from that alone."""
        log = self._broker.changelogs[self.partition]
        if self._disk.offset < log.purged and self._protocol.stale_disk_discarded:
            self._reached[Reached.TOO_OLD] += self._disk.offset > 0
            self._disk.clear()
        recovered_from = self._disk.offset
        tail = replay(log.tail_and_journal(recovered_from), self._protocol.changelog_writing)
        self._disk.write(log.end, tail)
        self.table = self._table_of(self._disk)
        self.shard = self._protocol.shard(self.partition, self._placement, self.table, CONFIRMATION)
        self.next_offset = self.table.in_flight().progress.offset
        self._progress = self.table.in_flight().progress
        self._reached[Reached.TAIL] += 0 < recovered_from < log.end
        self._reached[Reached.IN_FLIGHT] += bool(self.shard.pending or self.shard.parked)
        self._schedule.tell(
            f"{self} opens from offset {recovered_from} of its changelog, "
            f"goes on at packet {self.next_offset}"
        )

    def _poll(self) -> bool:
        """Handle some packets; False where there is none."""
        end = self.next_offset + 1 + self._schedule.below(self._batch_most)
        packets = self._log.packets[self.next_offset : end]
        if not packets:
            return False
        effects: list[Effect] = []
        for offset, packet in enumerate(packets, self.next_offset):
            led_to = self.shard.receive(packet)
            if self._schedule.story is not None:
                tell_packet(self._schedule, str(self), packet, led_to)
            if self._witness.see(self.partition, offset, led_to):
                self._reached[Reached.READ_AGAIN] += 1
            effects += led_to
        self._batch = self._batch_of(effects, self.next_offset + len(packets))
        if self._transactional:
            self.phase = Phase.COMMIT
            self._leak()
        else:
            self.phase = Phase.PUBLISH
            self._line_up()
        return True

    def _batch_of(self, effects: list[Effect], next_offset: int) -> Batch:
        outputs: list[Emit | EmitDeadLetter] = []
        sends: dict[int, list[tuple[int, Message]]] = {}
        changes: list[Change] = []
        for effect in effects:
            match effect:
                case Emit() | EmitDeadLetter():
                    outputs.append(effect)
                case Send(target, number, message):
                    sends.setdefault(target, []).append((number, message))
                case Remember(change):
                    changes.append(change)
                    if isinstance(change, PutParked) and change.visit is not None:
                        self._reached[Reached.PARKED] += 1
        progress = self.shard.progress(next_offset)
        if not self._protocol.progress_in_transaction:
            progress, self._progress = self._progress, progress
        changes.append(progress)
        packets = pack(self._schedule, self.partition, sends)
        return Batch(next_offset, outputs, packets, changes)

    # ------------------------------------------------------------ exactly once

    def _leak(self) -> None:
        """Do before the commit what a broken shell does too early."""
        batch = self._batch
        if not self._protocol.table_after_commit:
            self._disk.write(self._disk.offset, batch.changes)
        if not self._protocol.sends_in_transaction:
            for target, packet in batch.packets:
                self._broker.send(self.partition, target, packet)
        if not self._protocol.outputs_in_transaction:
            for output in batch.outputs:
                self._broker.put_out(output)

    def _try_commit(self) -> None:
        batch = self._batch
        if self.fails_next_commit:
            self.fails_next_commit = False
            self._schedule.tell(f"{self}: the transaction is aborted")
            self._reached[Reached.ABORTED] += 1
            if self._protocol.reopened_after_abort:
                self._write_to_disk()
                self.phase = Phase.READ
            else:
                self.next_offset = batch.next_offset
                self.phase = Phase.POLL
            return
        try:
            self._broker.check_epoch(self.partition, self._epoch)
        except FencedError:
            self._schedule.tell(f"{self} is fenced")
            self._reached[Reached.FENCED] += 1
            self.stop(crash=True)
            self._when_fenced(self)
            return
        self._broker.turn += 1
        if self._protocol.outputs_in_transaction:
            for output in batch.outputs:
                self._broker.put_out(output)
        if self._protocol.sends_in_transaction:
            for target, packet in batch.packets:
                self._broker.send(self.partition, target, packet)
        self._broker.changelogs[self.partition].append(batch.changes)
        self._committed()

    # ------------------------------------------------------------ at least once

    def _line_up(self) -> None:
        """Put what the batch publishes in an order: outputs and packets first, then the changes."""
        outputs = deque(partial(self._put_out, output) for output in self._batch.outputs)
        packets = deque(
            partial(self._broker.send, self.partition, target, packet)
            for target, packet in self._batch.packets
        )
        merged: list[Callable[[], None]] = []
        while outputs or packets:
            side = self._schedule.below(len(outputs) + len(packets)) < len(outputs)
            merged.append(outputs.popleft() if side else packets.popleft())
        log = self._broker.changelogs[self.partition]
        if self._protocol.changelog_writing is ChangelogWriting.JOURNAL:
            merged.append(partial(log.append, [Journal(tuple(self._batch.changes))]))
        merged += [partial(log.append, [change]) for change in self._batch.changes]
        self._publications = deque(merged)

    def _put_out(self, output: Emit | EmitDeadLetter) -> None:
        self._broker.turn += 1
        self._broker.put_out(output)

    def _publish(self) -> None:
        """Publish a few more; a crash between two steps leaves the rest unpublished."""
        for _ in range(1 + self._schedule.below(8)):
            if not self._publications:
                break
            self._publications.popleft()()
        if not self._publications:
            self._committed()

    # ------------------------------------------------------------ after the commit

    def _committed(self) -> None:
        """Write the batch to the table; to the disk perhaps later."""
        self._schedule.tell(f"{self} commits up to packet {self._batch.next_offset}")
        self.next_offset = self._batch.next_offset
        self.table.commit(self._batch.changes)
        end = self._broker.changelogs[self.partition].end
        self._unwritten.append((end, self._batch.changes))
        if self._schedule.below(2) == 0:
            self._write_to_disk()
        self.phase = Phase.POLL

    def _write_to_disk(self) -> None:
        if not self._protocol.table_after_commit:
            return
        for offset, changes in self._unwritten:
            self._disk.write(offset, changes)
        self._unwritten.clear()

    def __str__(self) -> str:
        """Return how the story names this owner."""
        return f"shard {self.partition} on worker {self.worker}"
