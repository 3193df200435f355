"""``firstseen check``: ask the index, through a running worker, about a text."""

from __future__ import annotations

import click

from streams.cli import options


@click.command(short_help="Ask the index, through a running worker, about a text.")
@click.argument("file", metavar="[FILE]", required=False)
@click.option("--text", metavar="TEXT", help="This text, instead of a file.")
@click.option(
    "--url",
    metavar="URL",
    help="Address of the pages of any worker of the index. [default: by web.host and web.port]",
)
@options.number_option("--nearest", click.IntRange(0, 50), "Nearest documents to list.", default=10)
@click.option("--scope", default="", help="Scope of the text, where the index has scopes.")
@options.json_option
@click.option(
    "--exit-code", "by_verdict", is_flag=True, help="Exit with code 3 if the text is a duplicate."
)
@options.with_local_settings
def command(
    settings: options.Settings,
    *,
    file: str | None,
    text: str | None,
    url: str | None,
    nearest: int,
    scope: str,
    as_json: bool,
    by_verdict: bool,
) -> int:
    """Ask the index about the text in FILE (- is standard input). The text is not kept.

    Shows the verdict, the fingerprint, and the nearest documents that share a bucket with the text.
    Any worker answers for the whole index. If the pages need a token, the command takes it from
    web.token or web.token_file.

    \b
    Examples:
      firstseen check article.txt
      firstseen check --text '北京今天下雪了，地铁照常运行。' --url http://127.0.0.1:6066
      pbpaste | firstseen check - --json | jq -r .verdict
      firstseen check a.txt --url http://worker-0:6066 --exit-code
    """  # noqa: D301 - \b is click's mark for "leave the lines as they are"
    from streams.cli.text_views import check_view, exit_code_of_answer
    from streams.errors import ExitCode
    from streams.ops_page.text_check import CheckRequest, ask_worker, own_url

    request = CheckRequest(options.given_text(file, text, settings), scope=scope, nearest=nearest)
    answer = ask_worker(url or own_url(settings.web), settings.web, request)
    options.write_blocks("check", answer, check_view(answer), as_json=as_json)
    return exit_code_of_answer(answer) if by_verdict else ExitCode.OK
