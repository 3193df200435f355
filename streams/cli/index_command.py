"""``firstseen index``: figures, checks, checkpoints, export, load and a new log of an index."""

from __future__ import annotations

import click

from streams.cli.index_changes import drop, load, new_log
from streams.cli.index_copies import checkpoint, restore
from streams.cli.index_looks import export, stats, verify


@click.group()
def command() -> None:
    """Look after an index: figures, checks, checkpoints, export, load, a new log.

    Commands that only look (stats, verify, export) and checkpoint work beside workers that run.
    Those that change an index refuse while it has workers.
    """


for _each in (stats, verify, checkpoint, restore, export, load, drop, new_log):
    command.add_command(_each)
