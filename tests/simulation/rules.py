"""The rules that the shell around the core keeps; a mutant breaks one of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rules:
    """Each is what the text of the field says; True: it is kept."""

    commits_are_fenced: bool = True
    """A worker that lost a partition cannot commit for it."""
    entries_with_outputs: bool = True
    """New entries are committed together with the outputs."""
    progress_with_outputs: bool = True
    """Progress is committed together with the outputs."""
    initial_progress: bool = True
    """A new shard commits a progress before it sends anything."""
    trims_when_all_have_told: bool = True
    """The log is trimmed only when all raw partitions have told what they need."""
    trims_to_lowest: bool = True
    """The log is trimmed up to the lowest offset that any shard needs."""
    reads_reports_from_before: bool = True
    """A leader reads reports from before its term begins."""
    removals_with_outputs: bool = True
    """What is taken out is committed together with the outputs."""
    first_progress_has_clock: bool = True
    """The first progress of a shard has the watermark of the place where it begins to read."""
    standbys_write_before_they_tell: bool = True
    """A standby's store has a commit before the protocol learns of it."""
    lost_shards_are_let_go: bool = True
    """A worker lets a shard go that others had since, though it owns it again by now."""
    lost_reports_are_sent_again: bool = True
    """A report that the broker refused is made again."""
    reports_again: bool = True
    """What stays undecided is reported again: a report that was acknowledged may be lost."""


KEPT = Rules()
