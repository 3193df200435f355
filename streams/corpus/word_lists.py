"""The word lists of the generated documents, read from the text files under ``words/``.

A file has chapters (``# name``), which have sections (``## name``); every other line is one entry.
Lines that begin with ``>`` say what the file holds, and blank lines mean nothing. A chapter with
entries of its own has them in a section without a name.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TypeAlias

from streams.corpus.grammar import Pattern, parse

Sections: TypeAlias = Mapping[str, tuple[str, ...]]
"""The entries of each section of a chapter, in the order of the file."""


@cache
def chapters(language: str, file: str) -> Mapping[str, Sections]:
    """Read ``words/<language>/<file>.txt``: its chapters, in the order of the file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: an entry stands before the first chapter.
    """
    source = files("streams.corpus").joinpath("words", language, f"{file}.txt")
    return read_chapters(source.read_text("utf-8"), f"{language}/{file}.txt")


def read_chapters(text: str, name: str) -> Mapping[str, Sections]:
    """Read the text of a word list; ``name`` is for messages.

    Raises:
        ValueError: an entry stands before the first chapter.
    """
    chapters: dict[str, dict[str, list[str]]] = {}
    sections: dict[str, list[str]] | None = None
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if not line or line.startswith(">"):
            continue
        if line.startswith("# "):
            sections, section = chapters.setdefault(line[2:], {}), ""
        elif sections is None:
            raise ValueError(f"{name}, line {number}: {line!r} stands before the first '# chapter'")
        elif line.startswith("## "):
            section = line[3:]
        else:
            sections.setdefault(section, []).append(line)
    return {
        chapter: {section: tuple(entries) for section, entries in sections.items()}
        for chapter, sections in chapters.items()
    }


def patterns(entries: tuple[str, ...]) -> tuple[Pattern, ...]:
    """Parse the entries of a section."""
    return tuple(map(parse, entries))


def patterns_by_section(sections: Sections) -> Mapping[str, tuple[Pattern, ...]]:
    """Parse the entries of a chapter."""
    return {section: patterns(entries) for section, entries in sections.items()}
