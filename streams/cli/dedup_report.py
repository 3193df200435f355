"""What ``firstseen dedup`` shows: a bar while it runs, a summary at the end, or one JSON object."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from streams.files.input_lines import InputLines
from streams.offline.dedup_launch import Launched
from streams.offline.dedup_progress import BLANK, DEAD_LETTER, Kind, RunProgress

_DUPLICATES: Final = ("exact_duplicate", "near_duplicate")


class DedupReport(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a run; the fields are those of the JSON object.

    ``unique`` counts the lines of that output, ``undecidable`` those among them that were too
    short to compare. Counts are of the whole run, ``seconds`` and ``documents_per_second`` of this
    process: they differ where it continued an interrupted run, at line ``resumed_after_line``.
    """

    input: str
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
    """Return a run's dead letters by reason, the most frequent first."""
    found = {
        name.removeprefix(DEAD_LETTER): count
        for name, count in counts.items()
        if name.startswith(DEAD_LETTER)
    }
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def summary(report: DedupReport) -> str:
    """Return the summary for people, some twelve lines."""
    documents = "document" if report.documents == 1 else "documents"
    head = (
        f"{report.input}: {report.documents:,} {documents} in {report.seconds:.1f} s "
        f"({report.documents_per_second:,.0f} a second)"
    )
    if report.resumed_after_line is not None:
        head += f"\nrun {report.run} continued after line {report.resumed_after_line:,}"
    rows = [
        ("unique", report.unique, shown_path(report.outputs["unique"])),
        ("  undecidable", report.undecidable, "too short to compare: exact repeats only"),
        ("duplicates", report.duplicates, shown_path(report.outputs["duplicates"])),
        ("  exact", report.exact_duplicates, ""),
        ("  near", report.near_duplicates, ""),
        ("dead letters", report.dead_letters, shown_path(report.outputs["dead_letters"])),
        *((f"  {name}", count, "") for name, count in report.dead_letters_by_reason.items()),
        ("blank lines", report.blank_lines, ""),
    ]
    name_width = max(len(name) for name, _, _ in rows)
    count_width = max(len(f"{count:,}") for _, count, _ in rows)
    lines = [
        f"  {name:<{name_width}}  {count:>{count_width},}  {note}".rstrip()
        for name, count, note in rows
    ]
    kept = f"in {shown_path(report.state)}, run {report.run}" if report.state else "in memory only"
    index = f"index: {report.index_documents:,} unique documents ({report.profile}), {kept}"
    return "\n".join([head, *lines, index])


def shown_path(path: str) -> str:
    """Return a path as short as it can be said from here."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path


def report_of(
    run: Launched, *, file: str, seconds: float, profile: str, state: Path | None
) -> DedupReport:
    """Return the report of a run that is done; ``seconds`` it took this process."""
    progress = run.dedup.progress
    counts = progress.counts
    exact, near = (counts.get(name, 0) for name in _DUPLICATES)
    undecidable = counts.get("undecidable", 0)
    by_reason = dead_letters_in(counts)
    documents = progress.documents
    return DedupReport(
        input=file,
        documents=documents,
        unique=counts.get("unique", 0) + undecidable,
        undecidable=undecidable,
        duplicates=exact + near,
        exact_duplicates=exact,
        near_duplicates=near,
        dead_letters=sum(by_reason.values()),
        dead_letters_by_reason=by_reason,
        blank_lines=counts.get(BLANK, 0),
        lines=progress.lines,
        seconds=round(seconds, 3),
        documents_per_second=round((documents - run.documents_before) / seconds, 1),
        outputs={kind: str(output.path) for kind, output in progress.outputs.items()},
        profile=profile,
        index=run.identity,
        index_documents=run.dedup.documents,
        state=str(state) if state else None,
        run=progress.run or None,
        resumed_after_line=run.resumed_after,
    )


@contextmanager
def progress_bar(lines: InputLines) -> Iterator[Callable[[RunProgress], None]]:
    """Show a bar on standard error during a run; give what moves it.

    By bytes read; without their total (a pipe) only the figures move. Nothing is shown where
    standard error is not a terminal.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    columns = (
        TextColumn("{task.fields[documents]:,} documents, {task.fields[duplicates]:,} repeats"),
        BarColumn(bar_width=None),
        TaskProgressColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=console, transient=True, refresh_per_second=4) as progress:
        task = progress.add_task("", total=lines.total_bytes, documents=0, duplicates=0)

        def move(run: RunProgress) -> None:
            duplicates = sum(run.counts.get(name, 0) for name in _DUPLICATES)
            progress.update(
                task,
                completed=lines.bytes_read,
                documents=run.documents,
                duplicates=duplicates,
            )

        yield move
