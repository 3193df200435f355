"""``firstseen index checkpoint`` and ``restore``: copies of stores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from streams.cli.json_output import write_answer
from streams.cli.options import json_option, shard_option, with_settings

if TYPE_CHECKING:
    from streams.settings.settings import Settings


@click.command(short_help="Copy the stores of shards, to restore them later.")
@with_settings
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@shard_option
@json_option
def checkpoint(
    settings: Settings, directory: Path, *, shards: tuple[int, ...], as_json: bool
) -> None:
    """Copy the stores of the shards on this machine to DIRECTORY.

    Each copy is the state of one commit, so its entries and its positions in log, raw topic and
    changelog are consistent. If workers are running, their stores are copied row by row.

    \b
    Examples:
      firstseen index checkpoint /backup/firstseen-monday
    """  # noqa: D301 - \b is click's mark for "leave the lines as they are"
    from streams.care.checkpoints import make_checkpoint
    from streams.care.local_shards import local_shards
    from streams.cli.index_view import checkpoint_text
    from streams.terminal.progress_bar import progress_bar

    with progress_bar() as show:
        checkpoints = [
            make_checkpoint(each, directory, show) for each in local_shards(settings, shards)
        ]
    content = {"directory": str(directory), "checkpoints": checkpoints}
    write_answer(
        "index-checkpoint", content, checkpoint_text(directory, checkpoints), as_json=as_json
    )


@click.command(short_help="Restore stores from copies.")
@with_settings
@click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--force", is_flag=True, help="Replace existing stores.")
@shard_option
@json_option
def restore(
    settings: Settings, directory: Path, *, force: bool, shards: tuple[int, ...], as_json: bool
) -> None:
    """Replace the stores on this machine with the copies in DIRECTORY.

    The command first verifies the digests of the files. Stop the worker before. When you start it
    again, it reads everything newer from the changelog, so nothing is lost.

    \b
    Examples:
      firstseen index restore /backup/firstseen-monday
      firstseen index restore /backup/firstseen-monday --shard 3 --force
    """  # noqa: D301 - \b is click's mark for "leave the lines as they are"
    from streams.care.checkpoints import checkpoints_in, read_checkpoint, restore_checkpoint
    from streams.care.local_shards import local_shard
    from streams.cli.index_view import restore_text
    from streams.terminal.progress_bar import progress_bar

    restored = [read_checkpoint(directory, each) for each in checkpoints_in(directory, shards)]
    with progress_bar() as show:
        for each in restored:
            shard = local_shard(settings, each.partition)
            restore_checkpoint(directory, each, shard, show, force=force)
    content = {"directory": str(directory), "checkpoints": restored}
    write_answer("index-restore", content, restore_text(restored), as_json=as_json)
