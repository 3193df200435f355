"""The rules that the shell must keep around a shard, as switches. A mutant turns one off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from simhash_core.placement import Placement
from simhash_core.probes import Probe
from simhash_core.shard import Shard, first_partition


class ChangelogWriting(Enum):
    """How a batch gets into the changelog where there are no transactions."""

    JOURNAL = auto()
    """First the whole batch as one record of one key, then its changes one by one. An opening
    shard applies the last journal record last, and so ends a batch that was cut short."""
    CLOSED_BY_PROGRESS = auto()
    """Its changes one by one, progress last; an opening shard leaves out what follows the last
    progress. (A mutant: a shorter batch after the crash takes in what an earlier one left.)"""
    TORN = auto()
    """Its changes one by one, and all are applied. (A mutant.)"""


@dataclass(frozen=True)
class Protocol:
    """A shard, and the rules around it."""

    shard: type[Shard] = Shard
    first_stop: Callable[[Probe, Placement], int] = first_partition

    fenced: bool = True
    """A commit of an owner that another has followed fails."""
    fence_before_reading: bool = True
    """A new owner fences the old one before it reads the changelog, not after."""
    table_after_commit: bool = True
    """RocksDB is written after the commit to Kafka, not before."""
    reopened_after_abort: bool = True
    """After an abort the shard is opened anew: the old object has handled what did not commit."""
    outputs_in_transaction: bool = True
    """Outputs are part of the transaction; off: they are sent before the commit."""
    sends_in_transaction: bool = True
    """So are packets to other shards."""
    progress_in_transaction: bool = True
    """So is progress; off: each transaction carries that of the one before."""
    stale_disk_discarded: bool = True
    """A disk older than the tombstones that compaction has removed is not opened."""
    raw_commit_after_acks: bool = True
    """A fingerprint agent commits the raw offsets whose probes are acknowledged, and no others."""
    links_in_order: bool = True
    """What a sender sends to a partition arrives in order."""
    changelog_writing: ChangelogWriting = ChangelogWriting.JOURNAL


REAL = Protocol()
