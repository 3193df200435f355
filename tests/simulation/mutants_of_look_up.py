"""Mutants of look-ups, and of the rules that the shell around the core keeps."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.mutant import Mutant, one_edit
from tests.simulation.rules import KEPT

LOOK_UP = (
    one_edit(
        "only the nearest candidate is confirmed",
        "index.look_up:LookUp.matches_of",
        "if similarity is not None:\n            matched = document",
        "matched = document\n        if similarity is not None:",
    ),
    one_edit(
        "candidates are not confirmed",
        "text.verification:Verifier.similarity",
        "similarity if similarity >= self.at else None",
        "similarity",
    ),
    one_edit(
        "equal content is confirmed like the rest",
        "index.look_up:Nearness.similarity",
        "if columns.digest(row) == entry.content_digest:",
        "if False:",
    ),
    one_edit(
        "of candidates as near any is named",
        "index.pairs:sorted_pairs",
        "np.lexsort((sequences, distances, rows))",
        "np.lexsort((np.uint64(2**64 - 1) - sequences, distances, rows))",
    ),
    one_edit(
        "of candidates the earliest is named, not the nearest",
        "index.pairs:sorted_pairs",
        "np.lexsort((sequences, distances, rows))",
        "np.lexsort((distances, sequences, rows))",
    ),
    one_edit(
        "equal contents are not looked up",
        "index.look_up:LookUp.matches_of",
        "self._of_content(columns, view)",
        "[]",
    ),
    one_edit(
        "the memtable is not looked up",
        "index.document_index:DocumentIndex.pairs",
        "[*pairs_in_memtable(seen, prints)]",
        "[]",
    ),
    one_edit(
        "only the latest segment is looked up",
        "index.document_index:DocumentIndex.pairs",
        "in self._segments:",
        "in self._segments[-1:]:",
    ),
    one_edit(
        "pairs that share no block are near",
        "index.near_rows:_near",
        "not scheme.guaranteed and",
        "False and",
    ),
    one_edit(
        "a merge forgets the segment before the last",
        "index.document_index:DocumentIndex._seal",
        "for each in merged]",
        "for each in merged[1:]]",
    ),
)

SHELL = (
    Mutant("commits of zombies are not refused", rules=replace(KEPT, commits_are_fenced=False)),
    Mutant(
        "entries are committed apart from outputs", rules=replace(KEPT, entries_with_outputs=False)
    ),
    Mutant(
        "progress is committed apart from outputs", rules=replace(KEPT, progress_with_outputs=False)
    ),
    Mutant(
        "a new shard commits no first progress",
        rules=replace(KEPT, initial_progress=False),
    ),
    Mutant(
        "the log is trimmed before all have told",
        rules=replace(KEPT, trims_when_all_have_told=False),
    ),
    Mutant("the log is trimmed too far", rules=replace(KEPT, trims_to_lowest=False)),
    Mutant(
        "a shard that others had since is kept", rules=replace(KEPT, lost_shards_are_let_go=False)
    ),
)
