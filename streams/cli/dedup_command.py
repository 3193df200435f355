"""``firstseen dedup``: split a file into first of their kind and repeats, with no broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from simhash_core.errors import UsageError
from streams.cli.options import with_local_settings

if TYPE_CHECKING:
    from streams.offline.local_dedup import LocalDedup
    from streams.settings.settings import Settings


@click.command(short_help="Split a file into first of their kind and repeats, with no broker.")
@click.argument("file", metavar="FILE")
@click.option("--unique", metavar="U", help="First of their kind: the lines as they came.")
@click.option("--duplicates", metavar="D", help="Repeats: a JSON record each, naming the original.")
@click.option("--dead-letters", metavar="X", help="Lines that cannot be read, and why.")
@click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep the index here: later runs know its documents, an interrupted one continues.",
)
@click.option("--abandon", is_flag=True, help="Give up an interrupted run of another command.")
@click.option("--force", is_flag=True, help="Overwrite outputs that exist.")
@click.option("--json", "as_json", is_flag=True, help="Write the summary as one JSON object.")
@with_local_settings
def command(
    settings: Settings,
    file: str,
    *,
    state: Path | None,
    abandon: bool,
    force: bool,
    as_json: bool,
    **outputs: str | None,
) -> None:
    """Split FILE into documents that are the first of their kind, and repeats of these.

    FILE has a JSON object a line ("text", and if there is one "id"; --set fields.text=… names
    others). It is read as gzip if it ends in .gz; - is standard input. Lines without anything are
    skipped.

    Where no output is named, they are beside FILE: news.jsonl gives news.unique.jsonl,
    news.duplicates.jsonl and news.dead-letters.jsonl. They get their names when all is done; one
    that ends in .gz is written as gzip, and - is standard output.

    With --state DIR the index is on disk. A later run with another file knows the documents of
    earlier ones. A run that was killed, at any moment, continues when the same command is given
    again. The same file run once more is a new arrival of each document: all are repeats.

    \b
    Examples:
      firstseen dedup news.jsonl.gz
      firstseen dedup news.jsonl --profile classic --unique u.gz --duplicates d.gz
      firstseen dedup monday.jsonl --state seen
      firstseen dedup tuesday.jsonl --state seen
      zcat *.gz | firstseen dedup - --unique - --set fields.text=body > new.jsonl
    """  # noqa: D301 - \b is click's mark for "leave the lines as they are"
    from streams.cli.dedup_report import report_of, step_in_words, summary
    from streams.cli.json_output import write_json
    from streams.offline.dedup_launch import DedupRequest, launched
    from streams.offline.dedup_progress import KINDS
    from streams.terminal.layout import show
    from streams.terminal.progress_bar import progress_bar

    if as_json and "-" in outputs.values():
        raise UsageError("--json writes to standard output, as an output does: name a file for it")
    given = {kind: outputs[kind] for kind in KINDS}
    with launched(settings, DedupRequest(file, given, state, abandon, force)) as run:
        began = time.perf_counter()
        with progress_bar() as move, _way_on_told(run.dedup, state):
            for progress in run.dedup.run(run.lines):
                move(step_in_words(progress), run.lines.bytes_read, run.lines.total_bytes)
        report = report_of(
            run,
            file=file,
            seconds=time.perf_counter() - began,
            profile=settings.profile,
            state=state,
        )
    if as_json:
        write_json("dedup", report)
    else:
        show(summary(report), stderr="-" in outputs.values())


@contextmanager
def _way_on_told(dedup: LocalDedup, state: Path | None) -> Iterator[None]:
    """On Ctrl-C or SIGTERM, say that the run is not lost."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        if state is not None:
            click.echo(
                f"firstseen: interrupted after line {dedup.progress.lines:,}: "
                "the same command continues from there",
                err=True,
            )
        raise
