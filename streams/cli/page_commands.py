"""``firstseen check`` and ``health``: query a running worker through its pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from simhash_core.errors import FirstseenError
from streams.cli import options
from streams.errors import ExitCode

if TYPE_CHECKING:
    from streams.documents.output_records import PositionValue
    from streams.ops_page.text_check import CheckAnswer, NearDocument
    from streams.terminal.layout import Block

_ID_CELLS = 28
_SOURCE_CELLS = 32
_DUPLICATES = frozenset({"near_duplicate", "exact_duplicate"})


@click.command()
@click.argument("file", metavar="[FILE]", required=False)
@click.option("--text", metavar="TEXT", help="Use this text instead of a file.")
@click.option(
    "--url",
    metavar="URL",
    help="Address of the pages of any worker of the index. [default: by web.host and web.port]",
)
@options.number_option(
    "--nearest", click.IntRange(0, 50), "Number of nearest documents to list.", default=10
)
@click.option("--scope", default="", help="Scope of the text, if the index has scopes.")
@options.json_option
@click.option(
    "--exit-code", "by_verdict", is_flag=True, help="Exit with code 3 if the text is a duplicate."
)
@options.with_local_settings
def check(
    settings: options.Settings,
    *,
    file: str | None,
    text: str | None,
    url: str | None,
    nearest: int,
    scope: str,
    by_verdict: bool,
) -> int:
    """Check the text in FILE (- is standard input) against the index. The text is not stored.

    Shows the verdict, the fingerprint, and the nearest documents that share a bucket with the text.
    Any worker answers for the whole index. If the pages need a token, the command takes it from
    web.token or web.token_file.

    \b
    Examples:
      firstseen check article.txt
      firstseen check --text '北京今天下雪了，地铁照常运行。' --url http://127.0.0.1:6066
      pbpaste | firstseen check - --json | jq -r .verdict
      firstseen check a.txt --url http://worker-0:6066 --exit-code
    """
    from streams.ops_page.text_check import CheckRequest, ask_worker, own_url

    text = options.given_text(file, text, settings)
    request = CheckRequest(text, scope=options.utf8("--scope", scope), nearest=nearest)
    answer = ask_worker(url or own_url(settings.web), settings.web, request)
    options.write_answer("check", answer, check_view(answer))
    return exit_code_of_answer(answer) if by_verdict else ExitCode.OK


def exit_code_of_answer(answer: CheckAnswer) -> ExitCode:
    return ExitCode.DUPLICATE if answer.verdict in _DUPLICATES else ExitCode.OK


def check_view(answer: CheckAnswer) -> list[Block]:
    from streams.terminal.layout import hex_lines, one_line, table

    def position(source: PositionValue) -> str:
        return f"{source.topic}/{source.partition}@{source.offset}"

    def row(each: NearDocument) -> tuple[str, ...]:
        return (
            one_line(each.id, _ID_CELLS),
            "yes" if each.near else "no",
            str(each.distance),
            "-" if each.agreement is None else f"{each.agreement:.3f}",
            "-" if each.block is None else str(each.block),
            one_line(position(each.source), _SOURCE_CELLS),
        )

    verdict, original = answer.verdict.replace("_", " "), answer.original
    if original is not None:
        verdict += f" of {one_line(original.id, _ID_CELLS)} ({position(original.source)})"
    none = f"none: undecidable ({answer.undecidable})"
    first, *more = hex_lines(bytes.fromhex(answer.fingerprint)) if answer.fingerprint else [none]
    lines: list[Block] = [
        f"verdict      {verdict}",
        f"fingerprint  {first}",
        *(" " * 13 + line for line in more),
        f"features     {answer.features}",
        f"candidates   {answer.candidates:,}, {answer.fullest_bucket:,} in the fullest bucket",
    ]
    if answer.nearest:
        head = ("document", "near", "bits", "agreement", "block", "source position")
        lines += ["", table([head, *map(row, answer.nearest)], "<<>>><")]
    return lines


@click.command()
@click.option(
    "--url",
    metavar="URL",
    help="Address of the worker's pages. [default: by web.host and web.port]",
)
@click.option(
    "--ready", is_flag=True, help="Check readiness instead: its shards have caught up (/readyz)."
)
@options.with_local_settings
def health(settings: options.Settings, *, url: str | None, ready: bool) -> int:
    """Check whether a worker is healthy. Exit code 0 if it is; 1 with the reason if not.

    If the pages need a token, the command takes it from web.token or web.token_file.

    \b
    Examples:
      firstseen health
      firstseen health --ready --url http://worker-0:6066
    """
    from streams.ops_page.text_check import own_url, why_unhealthy

    why = why_unhealthy(url or own_url(settings.web), settings.web, ready=ready)
    if why is not None:
        raise FirstseenError(f"the worker is not {'ready' if ready else 'healthy'}: {why}")
    click.echo("ready" if ready else "well")
    return ExitCode.OK
