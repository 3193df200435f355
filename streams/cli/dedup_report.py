"""Output of ``firstseen dedup``: progress, summary, JSON object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from simhash_core.text.profiles import index_digest
from streams.offline.dedup_files import BLANK, DEAD_LETTER, Kind, RunProgress
from streams.offline.local_dedup import Launched
from streams.terminal.layout import Block, counted, table

_DUPLICATES: Final = ("exact_duplicate", "near_duplicate")


class DedupReport(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a run, as in the JSON object.

    ``unique`` includes ``undecidable``. Counts are of the whole run; ``seconds`` and
    ``documents_per_second`` are of this process. They differ if it resumed an interrupted run after
    line ``resumed_after_line``.
    """

    inputs: tuple[str, ...]
    files: int
    documents: int
    unique: int
    undecidable: int
    duplicates: int
    exact_duplicates: int
    near_duplicates: int
    dead_letters: int
    dead_letters_by_reason: Mapping[str, int]
    blank_lines: int
    lines: int
    seconds: float
    documents_per_second: float
    outputs: Mapping[Kind, str]
    profile: str
    index: str
    index_documents: int
    state: str | None
    run: int | None
    resumed_after_line: int | None


def dead_letters_in(counts: Mapping[str, int]) -> dict[str, int]:
    dead_letters = {
        name.removeprefix(DEAD_LETTER): count
        for name, count in counts.items()
        if name.startswith(DEAD_LETTER)
    }
    return dict(sorted(dead_letters.items(), key=lambda item: (-item[1], item[0])))


def summary(report: DedupReport) -> list[Block]:
    first, *others = report.inputs
    inputs = f"{first} and {counted(len(others), 'other')}" if others else first
    head = (
        f"{inputs}: {counted(report.documents, 'document')} "
        f"in {report.seconds:.1f} s ({report.documents_per_second:,.0f} a second)"
    )
    resumed = []
    if report.resumed_after_line is not None:
        resumed = [f"run {report.run} continued after line {report.resumed_after_line:,}"]
    rows = [
        ("unique", report.unique, shown_path(report.outputs["unique"])),
        ("  undecidable", report.undecidable, "too short to compare"),
        ("duplicates", report.duplicates, shown_path(report.outputs["duplicates"])),
        ("  exact", report.exact_duplicates, ""),
        ("  near", report.near_duplicates, ""),
        ("dead letters", report.dead_letters, shown_path(report.outputs["dead_letters"])),
        *((f"  {name}", count, "") for name, count in report.dead_letters_by_reason.items()),
        ("blank lines", report.blank_lines, ""),
    ]
    counts = table([(name, f"{count:,}", note) for name, count, note in rows], "<><", "  ")
    kept = f"in {shown_path(report.state)}, run {report.run}" if report.state else "in memory only"
    index = f"index: {report.index_documents:,} unique documents ({report.profile}), {kept}"
    return [head, *resumed, counts, index]


def shown_path(path: str) -> str:
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path


def report_of(
    run: Launched, *, files: Sequence[str], seconds: float, profile: str, state: Path | None
) -> DedupReport:
    progress = run.dedup.progress
    counts = progress.counts
    exact, near = (counts.get(name, 0) for name in _DUPLICATES)
    undecidable = counts.get("undecidable", 0)
    by_reason = dead_letters_in(counts)
    documents = progress.documents
    return DedupReport(
        inputs=tuple(files),
        files=len(run.inputs.files),
        documents=documents,
        unique=counts.get("unique", 0) + undecidable,
        undecidable=undecidable,
        duplicates=exact + near,
        exact_duplicates=exact,
        near_duplicates=near,
        dead_letters=sum(by_reason.values()),
        dead_letters_by_reason=by_reason,
        blank_lines=counts.get(BLANK, 0),
        lines=progress.all_lines,
        seconds=round(seconds, 3),
        documents_per_second=round((documents - run.documents_before) / seconds, 1),
        outputs={kind: str(output.path) for kind, output in progress.outputs.items()},
        profile=profile,
        index=index_digest(run.identity),
        index_documents=run.dedup.documents,
        state=str(state) if state else None,
        run=progress.run or None,
        resumed_after_line=run.resumed_after,
    )


def step_in_words(progress: RunProgress) -> str:
    repeats = sum(progress.counts.get(name, 0) for name in _DUPLICATES)
    return f"{counted(progress.documents, 'document')}, {counted(repeats, 'repeat')}"
