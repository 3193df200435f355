"""HTML pages, each one file, from templates that escape every value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

import jinja2
from markupsafe import Markup

from simhash_core.documents import Document
from streams.offline.pages.text_differences import Piece, side_by_side

_STYLE: Final = "pages.css"


class ShownText(NamedTuple):
    id: str
    name: str
    note: str | None
    pieces: Iterable[Piece]


def page(template: str, title: str, values: Mapping[str, object]) -> str:
    """Return a page; all values are escaped."""
    style = Markup((files(__package__) / _STYLE).read_text("utf-8"))  # noqa: S704 - our own
    return _environment().get_template(template).render(title=title, style=style, **values)


def text_pair(
    first: Document, second: Document, notes: tuple[str | None, str | None] = (None, None)
) -> tuple[ShownText, ShownText]:
    pieces = side_by_side(first.text, second.text)
    return (
        ShownText(first.id, _named(first), notes[0], pieces.left),
        ShownText(second.id, _named(second), notes[1], pieces.right),
    )


def _named(document: Document) -> str:
    return f"{document.id}: {document.title}" if document.title else document.id


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("streams.offline", "pages"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
