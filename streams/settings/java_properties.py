"""Java ``.properties`` files, the format of Kafka's ``client.properties``.

One entry a line, ``name=value``, ``name: value`` or ``name value``; ``#`` and ``!`` begin a
comment; a backslash at the end continues the line, elsewhere it begins an escape. As in
``java.util.Properties``, save that the file is UTF-8, and that a name given twice is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

_ENTRY: Final = re.compile(r"((?:\\.|[^\\:= \t\f])*)[ \t\f]*[:=]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROL: Final[Mapping[str, str]] = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Return the entries of a file.

    Raises ``ValueError``, with the line number, for a name that is missing or given twice and for
    an escape that is no Unicode character's.
    """
    entries: dict[str, str] = {}
    for number, line in _logical_lines(text):
        match = _ENTRY.fullmatch(line)
        assert match is not None  # the pattern takes anything
        name, value = (_unescaped(part, number) for part in match.groups())
        if not name:
            raise ValueError(f"line {number} has no name before its value")
        if name in entries:
            raise ValueError(f"line {number} gives {name} a second time")
        entries[name] = value
    return entries


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each entry with the number of its first line, continuation lines joined."""
    pieces: list[str] = []
    first = 0
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        piece = line.lstrip(" \t\f")
        if not pieces:
            if not piece or piece[0] in "#!":
                continue
            first = number
        goes_on = (len(piece) - len(piece.rstrip("\\"))) % 2 == 1
        pieces.append(piece[:-1] if goes_on else piece)
        if not goes_on:
            yield first, "".join(pieces)
            pieces = []
    if pieces:
        yield first, "".join(pieces)


def _unescaped(text: str, line: int) -> str:
    def replaced(match: re.Match[str]) -> str:
        code = match[1]
        if len(code) > 1:
            return chr(int(code[1:], 16))
        if code == "u":
            raise ValueError(f"line {line} has a \\u that four hexadecimal digits do not follow")
        return _CONTROL.get(code, code)

    return _ESCAPE.sub(replaced, text)
