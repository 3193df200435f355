"""``firstseen demo``: watch a stream being deduplicated; nothing to set up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simhash_core.errors import UsageError
from streams.cli import options
from streams.errors import ExitCode

if TYPE_CHECKING:
    from streams.demo.run import DemoRequest


@click.command()
@options.number_option(
    "--documents",
    click.IntRange(1, 1_000_000),
    "Number of records. [default: 3,000 generated, or all of --input]",
)
@options.number_option(
    "--seed", click.IntRange(0), "Seed of the generated stream. [default: 1]", metavar="S"
)
@click.option("--input", metavar="FILE", help="Read your own documents, as JSON lines.")
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
    help="Write an HTML page that shows duplicate pairs side by side, and the dead letters.",
)
@click.option(
    "--state-dir",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep the state and the worker's log here, in an empty directory.",
)
@click.option(
    "--keep-running", is_flag=True, help="Keep the broker and the worker running until Ctrl-C."
)
@click.option("--plain", is_flag=True, help="Print plain lines even on a terminal.")
@options.json_option
def demo(*, page: Path | None, plain: bool, **request: Any) -> int:  # noqa: ANN401 - of DemoRequest
    """Watch one worker deduplicate a stream on an in-process Kafka broker.

    The documents are generated, in Chinese and English, with copies: reposts, edits of 1 to 20 %,
    truncations, reordered paragraphs, changed punctuation; and with short posts and broken records.
    The summary shows how many copies of each kind were found.

    With --input you use your own documents: one JSON object per line, with "text" and optionally
    "id". It can also be a .gz file, a folder of text files, or - for standard input. The summary
    then shows the duplicate pairs and the dead letters.

    The demo ignores settings files and FIRSTSEEN_ variables.

    Exit code 0 if every record is in exactly one output.

    \b
    Examples:
      firstseen demo
      firstseen demo --input my.jsonl --set fields.text=body --report pairs.html
      firstseen demo --documents 20000 --seed 7 --profile classic
      firstseen demo --json | tail -1 | jq .recall
    """
    from streams.demo.run import DemoRequest

    if None not in (request["input"], request["seed"]):
        raise UsageError(
            "--seed applies only to generated documents, not to --input: remove one of them"
        )
    given = {name: value for name, value in request.items() if value is not None}
    return _run(DemoRequest(**given), page, plain=plain)


def _run(request: DemoRequest, page: Path | None, *, plain: bool) -> int:
    from streams.demo.examples import demo_page, print_examples
    from streams.demo.live_view import shown
    from streams.demo.run import running_demo
    from streams.demo.summary import print_addresses, print_next, print_summary
    from streams.terminal.layout import output_console

    if page is not None:
        options.check_page(page, request.input)
    as_json = options.is_json()
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
        if demo.error:
            options.announce(demo.error)
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
