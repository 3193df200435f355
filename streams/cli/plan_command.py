"""``firstseen plan``: size an index, and see what it would find, before there is one."""

from __future__ import annotations

import click

from streams.cli import options


@click.command(
    cls=options.ProfileCommand, short_help="Size an index, and see what it would find, beforehand."
)
@options.number_option(
    "--documents",
    click.IntRange(0, 10**15),
    "Unique documents that the index will hold.",
    required=True,
)
@options.number_option(
    "--partitions",
    click.IntRange(1, 4096),
    "Raw partitions, each of which is a shard. [default: a suggested number]",
    metavar="P",
)
@options.number_option(
    "--workers",
    click.IntRange(1, 4096),
    "Workers that share memory and candidates.",
    default=1,
    metavar="W",
)
@options.json_option
@options.with_planned_settings
def command(
    settings: options.Settings,
    *,
    documents: int,
    partitions: int | None,
    workers: int,
    as_json: bool,
) -> None:
    """Estimate candidates, bytes on disk and in memory, partitions and recall of an index.

    The estimate assumes random fingerprints, which fill all buckets equally; with real texts some
    buckets are fuller. Where --bits or --blocks are given and no --profile, the rest is as in
    classic, and blocks divide the fingerprint evenly.

    \b
    Examples:
      firstseen plan --documents 100000000 --workers 4
      firstseen plan --documents 17179869184 --bits 64 --blocks 4 --distance 3
      firstseen plan --documents 5000000 --bits 256 --blocks 21 --block-bits 12 --distance 56 --json
    """  # noqa: D301 - \b is click's mark for "leave the lines as they are"
    from streams.cli.plan_view import plan_view
    from streams.offline.index_plan import plan_index

    plan = plan_index(documents, settings.index_profile(), partitions, workers)
    options.write_blocks("plan", plan, plan_view(plan), as_json=as_json)
