"""``firstseen dedup``: split files into unique documents and duplicates, without a broker."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from simhash_core.errors import UsageError
from streams.cli import options
from streams.errors import ExitCode
from streams.terminal.layout import Block, counted, progress_bar, table

if TYPE_CHECKING:
    from streams.offline.dedup_files import RunProgress
    from streams.offline.local_dedup import Launched, LocalDedup

_DUPLICATES = ("exact_duplicate", "near_duplicate")


@click.command()
@click.argument("files", metavar="FILE…", nargs=-1, required=True)
@click.option("--unique", metavar="U", help="Unique documents: the input lines, unchanged.")
@click.option(
    "--duplicates", metavar="D", help="Duplicates: one JSON record each, with the original."
)
@click.option("--dead-letters", metavar="X", help="Lines that cannot be read, with the reason.")
@click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep the index in this directory, for later runs and to resume an interrupted one.",
)
@click.option("--abandon", is_flag=True, help="Discard an interrupted run of another command.")
@options.number_option(
    "--jobs",
    click.IntRange(1, 256),
    "Number of fingerprint processes; the result does not depend on it. [default: one per core]",
)
@click.option("--force", is_flag=True, help="Overwrite outputs that exist.")
@options.json_option
@options.with_local_settings
def dedup(
    settings: options.Settings,
    files: tuple[str, ...],
    *,
    state: Path | None,
    abandon: bool,
    jobs: int | None,
    force: bool,
    **outputs: str | None,
) -> int:
    """Split the documents of FILE… into unique documents and duplicates.

    A FILE has one JSON object per line, with the field "text" and optionally "id" (--set
    fields.text=… sets other names); or it is CSV with a header (.csv, .tsv) or Parquet (.parquet),
    where each row is a document. In a folder, any other file is the text of one document. .gz and
    .zst are decompressed; - is standard input. Blank lines are skipped.

    Without options, outputs are written beside FILE: news.jsonl gives news.unique.jsonl,
    news.duplicates.jsonl and news.dead-letters.jsonl. For several FILEs or a folder, they are
    written to the current folder. If you name only some outputs, the others are written beside one
    of these. Files get their final names at the end of the run. A name that ends in .gz is written
    as gzip; - is standard output.

    With --state DIR the index is stored on disk, and a later run with other files includes the
    documents of earlier runs. To resume a killed run, repeat the command. If you run a completed
    file again, all of its documents are duplicates.

    \b
    Examples:
      firstseen dedup news.jsonl.gz
      firstseen dedup archive/ more.csv.zst --unique unique.jsonl --jobs 4
      firstseen dedup news.jsonl --profile classic --unique u.gz --duplicates d.gz
      firstseen dedup monday.jsonl --state seen
      firstseen dedup tuesday.jsonl --state seen
      zcat *.gz | firstseen dedup - --unique - --set fields.text=body > new.jsonl
    """
    from streams.offline.dedup_files import KINDS
    from streams.offline.local_dedup import DedupRequest, launched

    outputs = {kind: "-" if name == "/dev/stdout" else name for kind, name in outputs.items()}
    if options.is_json() and "-" in outputs.values():
        raise UsageError(
            "--json and an output both write to standard output: name a file for the output"
        )
    chosen = {kind: outputs[kind] for kind in KINDS}
    request = DedupRequest(files, chosen, state, abandon, force, jobs)
    with launched(settings, request) as run:
        began = time.perf_counter()
        with progress_bar() as move, _resume_hint(run.dedup, state):
            for progress in run.dedup.run():
                move(_step_in_words(progress), run.inputs.bytes_read, run.inputs.total_bytes)
        seconds = time.perf_counter() - began
        report, view = _shown(run, files, seconds, settings.profile, state)
    options.write_answer("dedup", report, view, stderr="-" in outputs.values())
    if report["dead_letters"] and not report["documents"]:
        options.announce("no line could be read as a document: see the reasons in the dead letters")
        return ExitCode.RUNTIME
    return ExitCode.OK


@contextmanager
def _resume_hint(dedup: LocalDedup, state: Path | None) -> Iterator[None]:
    """On Ctrl-C or SIGTERM, print how to resume the run."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        if state is not None:
            options.announce(
                f"interrupted after line {dedup.progress.all_lines:,}: repeat the command to "
                "continue from there"
            )
        raise


def _shown(
    run: Launched, files: Sequence[str], seconds: float, profile: str, state: Path | None
) -> tuple[dict[str, object], list[Block]]:
    """Return the figures of a run for JSON, and a view of them.

    Counts are of the whole run; ``seconds`` is of this process, which may have resumed the run.
    """
    from simhash_core.text.profiles import index_digest
    from streams.offline.dedup_files import BLANK, DEAD_LETTER

    progress = run.dedup.progress
    documents, counts = progress.documents, progress.counts
    exact, near = (counts.get(name, 0) for name in _DUPLICATES)
    undecidable, blank_lines = counts.get("undecidable", 0), counts.get(BLANK, 0)
    unique = counts.get("unique", 0) + undecidable
    reasons = [
        (name.removeprefix(DEAD_LETTER), count)
        for name, count in counts.items()
        if name.startswith(DEAD_LETTER)
    ]
    reasons.sort(key=lambda item: (-item[1], item[0]))
    dead_letters = sum(count for _, count in reasons)
    rate = round((documents - run.documents_before) / seconds, 1)
    outputs = {kind: str(output.path) for kind, output in progress.outputs.items()}
    report = {
        "inputs": files,
        "files": len(run.inputs.files),
        "documents": documents,
        "unique": unique,
        "undecidable": undecidable,
        "duplicates": exact + near,
        "exact_duplicates": exact,
        "near_duplicates": near,
        "dead_letters": dead_letters,
        "dead_letters_by_reason": dict(reasons),
        "blank_lines": blank_lines,
        "lines": progress.all_lines,
        "seconds": round(seconds, 3),
        "documents_per_second": rate,
        "outputs": outputs,
        "profile": profile,
        "index": index_digest(run.identity),
        "index_documents": run.dedup.documents,
        "state": str(state) if state else None,
        "run": progress.run or None,
        "resumed_after_line": run.resumed_after,
    }
    first, *others = files
    inputs = f"{first} and {counted(len(others), 'other')}" if others else first
    view: list[Block] = [
        f"{inputs}: {counted(documents, 'document')} in {seconds:.1f} s ({rate:,.0f} per second)"
    ]
    if run.resumed_after is not None:
        view.append(f"run {progress.run} continued after line {run.resumed_after:,}")
    rows = [
        ("unique", unique, _shown_path(outputs["unique"])),
        ("  undecidable", undecidable, "too short to compare"),
        ("duplicates", exact + near, _shown_path(outputs["duplicates"])),
        ("  exact", exact, ""),
        ("  near", near, ""),
        ("dead letters", dead_letters, _shown_path(outputs["dead_letters"])),
        *((f"  {name}", count, "") for name, count in reasons),
        ("blank lines", blank_lines, ""),
    ]
    view.append(table([(name, f"{count:,}", note) for name, count, note in rows], "<><", "  "))
    kept = f"in {_shown_path(str(state))}, run {progress.run}" if state else "in memory only"
    view.append(f"index: {run.dedup.documents:,} unique documents ({profile}), {kept}")
    return report, view


def _shown_path(path: str) -> str:
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path


def _step_in_words(progress: RunProgress) -> str:
    repeats = sum(progress.counts.get(name, 0) for name in _DUPLICATES)
    return f"{counted(progress.documents, 'document')}, {counted(repeats, 'repeat')}"
