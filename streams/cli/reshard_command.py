"""``firstseen reshard``: copy an index at rest to another number of shards."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from streams.cli.options import with_settings

if TYPE_CHECKING:
    from streams.settings import Settings


@click.command()
@with_settings
@click.option("--to", "target", required=True, metavar="ID", help="The new application id.")
@click.option(
    "--partitions",
    type=click.IntRange(1, 4096),
    required=True,
    metavar="N",
    help="The number of shards of the new index.",
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
def command(settings: Settings, *, target: str, partitions: int, as_json: bool) -> None:
    """Copy the index of --application-id to a new application id with another number of shards.

    Stop all workers in order (SIGTERM) when nothing is left to do; then run this; then start
    workers with the new application id. They go on where the old ones stopped. The old index is
    left as it is: to go back, start workers with the old id before the new ones have begun.

    \b
    Example:
      firstseen reshard --broker kafka-1:9092 --application-id firstseen \\
          --to firstseen-2 --partitions 24
    """  # noqa: D301 - \b is click's mark for "leave the lines as they are"
    from streams.broker_connection import connect_admin
    from streams.reshard import renamed, reshard

    connect_admin(settings, settings.send_timeout_seconds)
    new = renamed(settings, target)
    done = reshard(settings, new, partitions, lambda line: click.echo(line, err=True))
    if as_json:
        click.echo(json.dumps(done._asdict()))
    else:
        click.echo(
            f"{done.documents} documents in {done.entries} entries of {done.partitions} shards. "
            f"Start workers with --application-id {target}."
        )
