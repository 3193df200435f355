"""``firstseen dedup``: split files into first of their kind and repeats, with no broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from simhash_core.errors import UsageError
from streams.cli import options

if TYPE_CHECKING:
    from streams.offline.local_dedup import LocalDedup


@click.command(short_help="Split files into unique documents and duplicates, without Kafka.")
@click.argument("files", metavar="FILE…", nargs=-1, required=True)
@click.option("--unique", metavar="U", help="Unique documents: the input lines, unchanged.")
@click.option(
    "--duplicates", metavar="D", help="Duplicates: one JSON record each, which names the original."
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
def command(
    settings: options.Settings,
    files: tuple[str, ...],
    *,
    state: Path | None,
    abandon: bool,
    jobs: int | None,
    force: bool,
    as_json: bool,
    **outputs: str | None,
) -> int:
    """Split the documents of FILE… into unique documents and duplicates.

    A FILE has a JSON object a line ("text", and if there is one "id"; --set fields.text=… names
    others), or is CSV with a header (.csv, .tsv) or Parquet (.parquet): each row is a document. A
    folder stands for such files in it; each other file in it is the text of one document. .gz and
    .zst are unpacked; - is standard input. Blank lines are skipped.

    Without options, outputs go beside FILE: news.jsonl gives news.unique.jsonl,
    news.duplicates.jsonl and news.dead-letters.jsonl. For several FILEs or a folder, they go to the
    current folder. If you name some outputs, the others go beside one of these. Files get their
    names at the end of the run. A name that ends in .gz is written as gzip; - is standard output.

    With --state DIR the index is on disk. A later run with other files knows the documents of
    earlier ones. To resume a killed run, repeat the command. If you run a completed file again, all
    of its documents are duplicates.

    \b
    Examples:
      firstseen dedup news.jsonl.gz
      firstseen dedup archive/ more.csv.zst --unique unique.jsonl --jobs 4
      firstseen dedup news.jsonl --profile classic --unique u.gz --duplicates d.gz
      firstseen dedup monday.jsonl --state seen
      firstseen dedup tuesday.jsonl --state seen
      zcat *.gz | firstseen dedup - --unique - --set fields.text=body > new.jsonl
    """  # noqa: D301 - \b is click's mark for "leave the lines as they are"
    from streams.cli.dedup_report import report_of, step_in_words, summary
    from streams.errors import ExitCode
    from streams.offline.dedup_files import KINDS
    from streams.offline.local_dedup import DedupRequest, launched
    from streams.terminal.layout import progress_bar

    if as_json and "-" in outputs.values():
        raise UsageError("--json writes to standard output, as an output does: name a file for it")
    chosen = {kind: outputs[kind] for kind in KINDS}
    request = DedupRequest(files, chosen, state, abandon, force, jobs)
    with launched(settings, request) as run:
        began = time.perf_counter()
        with progress_bar() as move, _resume_hint(run.dedup, state):
            for progress in run.dedup.run(run.inputs):
                move(step_in_words(progress), run.inputs.bytes_read, run.inputs.total_bytes)
        report = report_of(
            run,
            files=files,
            seconds=time.perf_counter() - began,
            profile=settings.profile,
            state=state,
        )
    is_output = "-" in outputs.values()
    options.write_blocks("dedup", report, summary(report), as_json=as_json, stderr=is_output)
    if report.dead_letters and not report.documents:
        click.echo("firstseen: no line is a document: the dead letters say why", err=True)
        return ExitCode.RUNTIME
    return ExitCode.OK


@contextmanager
def _resume_hint(dedup: LocalDedup, state: Path | None) -> Iterator[None]:
    """On Ctrl-C or SIGTERM, print how to resume the run."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        if state is not None:
            click.echo(
                f"firstseen: interrupted after line {dedup.progress.all_lines:,}: "
                "the same command continues from there",
                err=True,
            )
        raise
