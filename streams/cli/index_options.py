"""The options that commands of ``firstseen index`` share, and how they answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    import msgspec

_Command = TypeVar("_Command", bound=Callable[..., Any])


def json_option(function: _Command) -> _Command:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")(function)


def shard_option(function: _Command) -> _Command:
    """Add ``--shard``."""
    return click.option(
        "--shard",
        "shards",
        type=click.IntRange(0, 65_535),
        multiple=True,
        metavar="P",
        help="Only the shard of raw partition P; repeatable. All that there are unless given.",
    )(function)


def timeout_option(function: _Command) -> _Command:
    """Add ``--timeout``."""
    return click.option(
        "--timeout",
        "timeout_seconds",
        type=click.FloatRange(0.1, 300),
        default=15.0,
        show_default=True,
        metavar="SECONDS",
        help="Longest wait for a broker.",
    )(function)


def tell(
    kind: str, content: Mapping[str, object] | msgspec.Struct, text: str, *, as_json: bool
) -> None:
    """Write an answer: as JSON, or as text for people."""
    from streams.cli.json_output import write_json

    if as_json:
        write_json(kind, content)
    else:
        click.echo(text)


def announce(text: str) -> None:
    """Say something beside the answer."""
    click.echo(f"firstseen: {text}", err=True)
