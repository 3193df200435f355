"""``firstseen index``: figures, checks, checkpoints, export, load and a new log of an index."""

from __future__ import annotations

import click

from streams.cli.index_changes import drop, load, new_log
from streams.cli.index_copies import checkpoint, restore
from streams.cli.index_looks import export, stats, verify


@click.group()
def command() -> None:
    """Inspect, check, copy, load and repair an index.

    The commands stats, verify, export and checkpoint change nothing and can run beside workers. The
    others refuse to run while the index has workers.
    """


for _each in (stats, verify, checkpoint, restore, export, load, drop, new_log):
    command.add_command(_each)
