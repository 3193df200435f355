"""``firstseen index stats``, ``verify`` and ``export``: commands that change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from streams.cli.json_output import announce, write_answer
from streams.cli.options import json_option, shard_option, timeout_option, with_settings

if TYPE_CHECKING:
    from streams.settings.settings import Settings


@click.command(short_help="Show figures of an index: documents, buckets, bytes, times.")
@with_settings
@shard_option
@json_option
def stats(settings: Settings, *, shards: tuple[int, ...], as_json: bool) -> None:
    """Show figures of the shards on this machine: documents, buckets, bytes, times, progress.

    The command reads local files only. Buckets are counted over all these shards together. A large
    bucket slows down each look-up in it.

    \b
    Examples:
      firstseen index stats
      firstseen index stats --shard 0 --json | jq .fullest
    """  # noqa: D301 - \b is click's mark for "leave the lines as they are"
    from simhash_core.text.fingerprinter import Fingerprinter
    from streams.care.index_stats import index_stats
    from streams.care.local_shards import local_shards
    from streams.cli.index_view import stats_text
    from streams.terminal.progress_bar import progress_bar

    local = local_shards(settings, shards)
    fingerprinter = Fingerprinter(settings.index_profile())
    with progress_bar() as show:
        figures = index_stats(
            settings.application_id,
            local,
            fingerprinter.scheme,
            fingerprinter.identity,
            settings.index.window,
            show,
        )
    write_answer("index-stats", figures, stats_text(figures), as_json=as_json)


@click.command(short_help="Compare disk, changelog and log of an index.")
@with_settings
@shard_option
@timeout_option
@json_option
def verify(
    settings: Settings, *, shards: tuple[int, ...], timeout_seconds: float, as_json: bool
) -> None:
    """Compare the stores on this machine with the changelog, and both with the log.

    The command reads every row and record and tests every checksum, so it finds even a single wrong
    bit. For each finding it says what to do. It changes nothing.

    Exit code 0 if all is consistent, 1 if not, 69 without a broker.

    \b
    Examples:
      firstseen index verify
      firstseen index verify --shard 3 --json | jq -r '.findings[].what'
    """  # noqa: D301 - \b is click's mark for "leave the lines as they are"
    from simhash_core.text.fingerprinter import Fingerprinter
    from streams.care.local_shards import local_shards
    from streams.care.verification import verify_index
    from streams.cli.index_view import verify_text
    from streams.kafka.connection import connect_admin
    from streams.terminal.progress_bar import progress_bar

    local = local_shards(settings, shards)
    admin = connect_admin(settings, timeout_seconds, announce)
    identity = Fingerprinter(settings.index_profile()).identity
    with progress_bar() as show:
        verified = verify_index(settings, admin, identity, local, show)
    write_answer("index-verify", verified, verify_text(verified), as_json=as_json)
    if verified.findings:
        click.get_current_context().exit(1)


@click.command(short_help="Write the entries of an index as lines of JSON.")
@with_settings
@click.argument("file")
@shard_option
@json_option
def export(settings: Settings, file: str, *, shards: tuple[int, ...], as_json: bool) -> None:
    """Write the entries of the shards on this machine to FILE, as JSON lines.

    The first line names the index. FILE is written as gzip if it ends in .gz; - is
    standard output. 'firstseen index load' reads it.

    \b
    Examples:
      firstseen index export seen.jsonl.gz
      firstseen index export - --shard 0 | jq -r .id
    """  # noqa: D301 - \b is click's mark for "leave the lines as they are"
    from streams.care.exporting import export_entries
    from streams.care.local_shards import local_shards
    from streams.files.output_files import new_output
    from streams.terminal.progress_bar import progress_bar

    if as_json and file == "-":
        raise click.UsageError("--json writes to standard output, as FILE - does: name a file")
    local = local_shards(settings, shards)
    with progress_bar("exporting") as show, new_output(file) as output:
        count = export_entries(settings.application_id, local, output, show)
    content = {"file": file, "documents": count, "shards": [each.partition for each in local]}
    if as_json:
        write_answer("index-export", content, "", as_json=True)
    else:
        click.echo(f"Wrote {count:,} entries to {file}.", err=file == "-")
