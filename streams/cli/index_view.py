"""What ``firstseen index`` says, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from streams.care.checkpoints import Checkpoint
    from streams.care.dropping import Dropped
    from streams.care.index_stats import IndexStats
    from streams.care.loading import LoadAccount
    from streams.care.new_log import NewLog
    from streams.care.verification import Verified


def load_text(account: LoadAccount) -> str:
    """Return what was loaded."""
    rate = account.documents / account.seconds if account.seconds else 0.0
    done = f"{account.documents:,} documents into {_counted(len(account.shards), 'shard')}"
    lines = [f"Loaded {done} in {account.seconds:.1f} s ({rate:,.0f} a second)."]
    lines += [f"  {count:,} were refused: {reason}" for reason, count in account.refused.items()]
    if account.begins:
        lines.append("Workers begin to read the raw topic at")
        lines += [f"  partition {p}: offset {offset}" for p, offset in account.begins.items()]
    return "\n".join(lines)


def stats_text(stats: IndexStats) -> str:
    """Return the figures of an index."""
    each = "" if stats.bytes_per_document is None else f", {stats.bytes_per_document:,.0f} each"
    lines = [
        f"index      {stats.application}, {_counted(len(stats.shards), 'shard')} here",
        f"documents  {stats.documents:,} ({stats.undecidable:,} matched by exact content only)",
        f"disk       {stats.bytes:,} bytes{each}",
        f"window     {stats.window or 'none: documents stay for ever'}",
    ]
    if stats.buckets is not None:
        lines.append(f"buckets    {stats.buckets:,}, {stats.mean_documents} documents in each")
        lines += [
            f"fullest    {each.documents:,} in {each.bucket}, value {each.value}"
            for each in stats.fullest
        ]
    for shard in stats.shards:
        times = "" if shard.oldest is None else f", times {shard.oldest} to {shard.newest}"
        size = f"{shard.documents:,} documents, {shard.bytes:,} bytes"
        lines.append(f"shard {shard.partition:<4} {size}{times}")
        lines.append(
            f"           next raw offset {shard.next_raw}, log from {shard.log_position}, "
            f"changelog read to {shard.changelog_offset}"
        )
    return "\n".join(lines)


def verify_text(verified: Verified) -> str:
    """Return what was compared, and what is wrong."""
    lines = []
    for shard in verified.shards:
        records = _counted(shard.records_behind, "record")
        behind = f", {records} of its changelog behind" if shard.records_behind else ""
        lines.append(f"shard {shard.partition}: {shard.documents:,} documents compared{behind}")
    if verified.log_end is not None:
        lines.append(
            f"log: offsets {verified.log_start} to {verified.log_end}, "
            f"{_counted(verified.undecided or 0, 'document')} undecided"
        )
    lines += [f"WRONG {finding}" for finding in verified.findings]
    if not verified.findings:
        lines.append("Disk, changelog and log are consistent.")
    return "\n".join(lines)


def checkpoint_text(directory: Path, checkpoints: Sequence[Checkpoint]) -> str:
    """Return what was copied."""
    return "\n".join([f"Copied to {directory}:", *map(_checkpoint, checkpoints)])


def restore_text(restored: Sequence[Checkpoint]) -> str:
    """Return what was put back."""
    lines = ["Restored; workers read everything newer from the changelog:"]
    return "\n".join([*lines, *map(_checkpoint, restored)])


def drop_text(dropped: Dropped) -> str:
    """Return what was deleted."""
    shards = ", ".join(map(str, dropped.shards)) or "none here"
    lines = [f"Deleted the stores of the shards: {shards}."]
    if dropped.topics:
        lines.append(f"Deleted, and created again, empty: {', '.join(dropped.topics)}.")
    return "\n".join(lines)


def new_log_text(begun: NewLog) -> str:
    """Return where the new log begins."""
    lines = [f"The new log starts at offset {begun.log_offset}."]
    if begun.filled:
        lines.append(f"{begun.filled:,} empty records are before it.")
    lines.append(f"{_counted(begun.read_again, 'raw record')} will be read and sent again.")
    return "\n".join(lines)


def _checkpoint(each: Checkpoint) -> str:
    return (
        f"  shard {each.partition}: {each.documents:,} documents, up to log position "
        f"{each.log_position}, changelog {each.changelog_offset}"
    )


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
