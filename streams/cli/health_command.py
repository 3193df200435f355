"""``firstseen health``: is the worker of this machine well? For probes of containers."""

from __future__ import annotations

import click

from streams.cli import options


@click.command(short_help="Ask a worker whether it is healthy, for container probes.")
@click.option(
    "--url",
    metavar="URL",
    help="Address of the worker's pages. [default: by web.host and web.port]",
)
@click.option("--ready", is_flag=True, help="Ask whether its shards have caught up (/readyz).")
@options.with_local_settings
def command(settings: options.Settings, *, url: str | None, ready: bool) -> int:
    """Ask a worker whether it is healthy. Exit code 0 if it is; 1 with the reason if not.

    If the pages need a token, the command takes it from web.token or web.token_file.

    \b
    Examples:
      firstseen health
      firstseen health --ready --url http://worker-0:6066
    """  # noqa: D301 - \b is click's mark for "leave the lines as they are"
    from simhash_core.errors import FirstseenError
    from streams.errors import ExitCode
    from streams.ops_page.text_check import own_url, why_not_well

    why = why_not_well(url or own_url(settings.web), settings.web, ready=ready)
    if why is not None:
        raise FirstseenError(f"the worker is not {'ready' if ready else 'well'}: {why}")
    click.echo("ready" if ready else "well")
    return ExitCode.OK
