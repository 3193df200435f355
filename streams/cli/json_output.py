"""What ``--json`` writes, in one form everywhere: an object a line, with its ``schema``.

``schema`` is ``firstseen.<kind>/<version>``: the version rises when a field goes or changes its
meaning, not when one is added. The text is UTF-8; what does not print is escaped, so that a record
cannot draw on a terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    import msgspec


def write_json(kind: str, content: Mapping[str, object] | msgspec.Struct) -> None:
    """Write an object to standard output, with its schema first."""
    sys.stdout.write(json_line(kind, content) + "\n")
    sys.stdout.flush()


def json_line(kind: str, content: Mapping[str, object] | msgspec.Struct, version: int = 1) -> str:
    """Return an object as one line of JSON, with its schema first."""
    import msgspec

    fields = msgspec.to_builtins(content)
    text = msgspec.json.encode({"schema": f"firstseen.{kind}/{version}"} | fields).decode()
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else json.dumps(sign)[1:-1] for sign in text)


def write_answer(
    kind: str, content: Mapping[str, object] | msgspec.Struct, text: str, *, as_json: bool
) -> None:
    """Write an answer to standard output: as JSON, or as text for people."""
    if as_json:
        write_json(kind, content)
    else:
        click.echo(text)


def announce(text: str) -> None:
    """Write a line to standard error, beside the answer."""
    click.echo(f"firstseen: {text}", err=True)
