"""``firstseen version``: the versions of Firstseen, Python and the main libraries."""

from __future__ import annotations

import platform
from importlib import metadata

import click

from streams.cli import options

_PARTS = ("firstseen", "faust-streaming", "confluent-kafka", "rocksdict", "rjieba")


@click.command()
@options.json_option
def version() -> None:
    """Show the versions that a bug report should include.

    \b
    Examples:
      firstseen version
      firstseen version --json
    """
    import confluent_kafka

    from streams.terminal.layout import table

    versions = {name: metadata.version(name) for name in _PARTS}
    versions["librdkafka"] = str(confluent_kafka.libversion()[0])
    versions["python"] = platform.python_version()
    options.write_answer("version", versions, [table(versions.items(), "<<")])
