"""``firstseen config``: show and check the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from streams.cli import options

if TYPE_CHECKING:
    from streams.settings.loader import LoadedSettings


@click.group()
def config() -> None:
    """Show and check the configuration.

    The order of precedence is: flag, environment variable (FIRSTSEEN_ and the name, with __ for
    each dot), file, default.
    """


@config.command(short_help="Show all settings, and where each value comes from.")
@options.with_loaded_settings
@options.json_option
def show(loaded: LoadedSettings) -> None:
    """Show all settings, and where each value comes from. Secrets are shown as "(set)".

    The last line has the short name and the full identity of the index with these settings.
    Records, metrics and --json use the short name.

    \b
    Examples:
      firstseen config show
      firstseen config show --config firstseen.toml --set index.distance=40
      firstseen config show --json | jq '.settings."topics.raw".value'
    """
    from simhash_core.text.fingerprinter import Fingerprinter
    from simhash_core.text.profiles import index_digest
    from streams.settings.reference import rows, text_rows
    from streams.terminal.layout import show as show_blocks
    from streams.terminal.layout import table

    identity = Fingerprinter(loaded.settings.index_profile()).identity
    digest = index_digest(identity)
    if not options.is_json():
        show_blocks([table(text_rows(loaded), "<<<"), f"index {digest}: {identity}"])
        return
    content = {
        row.setting: {
            "value": str(row.value) if isinstance(row.value, Path) else row.value,
            "origin": row.origin,
        }
        for row in rows(loaded)
    }
    options.write_json("config", {"settings": content, "index": digest, "identity": identity})


@config.command(short_help="Check the configuration.")
@options.with_loaded_settings
def validate(loaded: LoadedSettings) -> None:
    """Check the configuration. Exit code 0 if it is valid; 78 with all problems if not.

    This command does not connect to Kafka; 'firstseen topics check' does.

    \b
    Examples:
      firstseen config validate --config firstseen.toml
      FIRSTSEEN_BROKERS=kafka-1:9092 firstseen config validate
    """
    settings_set = len(loaded.origins)
    click.echo(
        f"The configuration is valid: {settings_set} given, all other settings have their default."
    )


@config.command(short_help="Print all settings with limits and defaults, in Markdown.")
@click.option(
    "--update",
    type=click.Path(path_type=Path, exists=True, dir_okay=False, writable=True),
    metavar="PAGE",
    help="Put the tables in their place in this page instead.",
)
def reference(update: Path | None) -> None:
    """Print all settings with limits and defaults, in Markdown.

    \b
    Examples:
      firstseen config reference | less
      firstseen config reference --update docs/configuration.md
    """
    from streams.settings.reference import markdown_tables, with_tables

    if update is None:
        click.echo(markdown_tables())
        return
    try:
        page = with_tables(update.read_text("utf-8"))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--update") from error
    update.write_text(page, "utf-8")
