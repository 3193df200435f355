"""``firstseen health``: is the worker of this machine well? For probes of containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from streams.cli.options import with_local_settings

if TYPE_CHECKING:
    from streams.settings.settings import Settings


@click.command(short_help="Ask a worker whether it is well; for probes.")
@click.option(
    "--url",
    metavar="URL",
    help="The pages of the worker. [default: by web.host and web.port]",
)
@click.option("--ready", is_flag=True, help="Whether its shards have caught up, as /readyz says.")
@with_local_settings
def command(settings: Settings, *, url: str | None, ready: bool) -> int:
    """Ask a worker whether it is well. Ends with 0 where it is, with 1 and the reason where not.

    The token of the pages comes from web.token or web.token_file, as the worker has it.

    \b
    Examples:
      firstseen health
      firstseen health --ready --url http://worker-0:6066
    """  # noqa: D301 - \b is click's mark for "leave the lines as they are"
    from simhash_core.errors import FirstseenError
    from streams.exit_codes import ExitCode
    from streams.ops_page.check_client import own_url, why_not_well

    why = why_not_well(url or own_url(settings.web), settings.web, ready=ready)
    if why is not None:
        raise FirstseenError(f"the worker is not {'ready' if ready else 'well'}: {why}")
    click.echo("ready" if ready else "well")
    return ExitCode.OK
