"""``firstseen demo``: watch a stream being deduplicated; nothing to set up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from streams.cli import options

if TYPE_CHECKING:
    from streams.demo.run import DemoRequest


@click.command()
@options.number_option(
    "--documents",
    click.IntRange(1, 1_000_000),
    "How many records: 3,000 generated ones, or all of --input, unless given.",
)
@options.number_option(
    "--seed", click.IntRange(0), "Seed of the generated stream. [default: 1]", metavar="S"
)
@click.option("--input", "input_", metavar="FILE", help="Your own documents, as JSON lines.")
@options.profile_option
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="NAME=VALUE",
    help="Any setting of the worker, e.g. fields.text=body; repeatable.",
)
@click.option(
    "--report",
    "page",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="PAGE",
    help="Write a page with the pairs beside each other, and the dead letters: one HTML file.",
)
@click.option(
    "--state-dir",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep the state and the worker's log here, in an empty directory.",
)
@click.option("--keep-running", is_flag=True, help="Keep broker and worker running until Ctrl-C.")
@click.option("--plain", is_flag=True, help="Print plain lines, also on a terminal.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object as the last line.")
def demo(  # noqa: PLR0913 - one for each option
    *,
    documents: int | None,
    seed: int | None,
    input_: str | None,
    profile: str | None,
    assignments: tuple[str, ...],
    page: Path | None,
    state_dir: Path | None,
    keep_running: bool,
    plain: bool,
    as_json: bool,
) -> int:
    """Watch a stream being deduplicated, by one worker on an in-process Kafka broker.

    The documents are generated, in Chinese and English, with their copies: reposts, edits of 1 to
    20 %, truncations, other paragraphs first, other signs, short posts, broken records. The truth
    is known, so the summary says how well each kind of copy was found.

    --input takes your own documents instead, and shows the pairs that were found and the dead
    letters: a JSON object a line with "text", and if there is one
    "id" (a .gz file, a folder of text files and - for standard input will do as well).

    The demo ignores settings files and FIRSTSEEN_ variables.

    Exit code 0 when every record ended in exactly one output.

    \b
    Examples:
      firstseen demo
      firstseen demo --input my.jsonl --set fields.text=body --report pairs.html
      firstseen demo --documents 20000 --seed 7 --profile classic
      firstseen demo --json | tail -1 | jq .recall
    """
    from simhash_core.errors import UsageError
    from streams.demo.run import SEED, DemoRequest

    if input_ is not None and seed is not None:
        raise UsageError(
            "--seed is of the generated stream, and --input is not generated: drop one"
        )
    request = DemoRequest(
        documents=documents,
        seed=SEED if seed is None else seed,
        input=input_,
        profile=profile,
        assignments=assignments,
        state_dir=state_dir,
        keep_running=keep_running,
    )
    return _run(request, page, plain=plain, as_json=as_json)


def _run(request: DemoRequest, page: Path | None, *, plain: bool, as_json: bool) -> int:
    from streams.demo.live_view import shown
    from streams.demo.run import running_demo
    from streams.demo.summary import (
        demo_page,
        print_addresses,
        print_examples,
        print_next,
        print_summary,
    )
    from streams.errors import ExitCode
    from streams.terminal.layout import output_console

    if page is not None:
        options.open_page(page, "a").close()
    console = output_console(stderr=as_json)
    with shown(console, _title(request), plain=plain) as view, running_demo(request, view) as demo:
        report = demo.play(view)
        view.finish()
        print_summary(console, report)
        if request.input is not None:
            print_examples(console, demo.examples)
        if page is not None:
            page.write_text(demo_page(report, demo.examples), "utf-8")
            click.echo(f"Report: {page}", err=as_json)
        if demo.trouble:
            click.echo(f"firstseen: {demo.trouble}", err=True)
        if not request.keep_running:
            print_next(console)
        if as_json:
            options.write_json("demo", report)
        code = ExitCode.OK if report.is_whole else ExitCode.RUNTIME
        if request.keep_running:
            print_addresses(
                console, demo.settings.brokers, demo.worker.url, demo.settings.state_dir
            )
            try:
                demo.stay()
            except KeyboardInterrupt:
                click.echo("Stopping …", err=True)
    return code


def _title(request: DemoRequest) -> str:
    from simhash_core.text.profiles import DEFAULT_PROFILE

    what = f"{request.generated():,} records" if request.input is None else request.input
    seed = f", seed {request.seed}" if request.input is None else ""
    return f"{what}{seed}, profile {request.profile or DEFAULT_PROFILE}"
