"""A small grammar for sentences: alternatives, slots and numbers.

    [据悉|据了解]    one of the alternatives (they nest; an empty one is allowed)
    {place}          a slot, which the writer of the article fills
    {#3-40}          a number from 3 to 40; {#0.5-2.5} keeps the digits after the point

The word lists under ``words/`` hold one pattern a line (word_lists.py).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

_MARKS = re.compile(r"[\[\]|]|\{[^{}]*\}")


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in a pattern that the writer of the article fills."""

    name: str


@dataclass(frozen=True, slots=True)
class Number:
    """A number from `low` to `high`, written with `digits` digits after the point."""

    low: float
    high: float
    digits: int


@dataclass(frozen=True, slots=True)
class Choice:
    """Alternatives, each as likely as the others."""

    options: tuple[Pattern, ...]


Pattern: TypeAlias = "tuple[str | Slot | Number | Choice, ...]"


def parse(text: str) -> Pattern:
    """Read a pattern.

    Raises:
        ValueError: a bracket is not closed, not opened, or a number range cannot be read.
    """
    stack: list[list[list[str | Slot | Number | Choice]]] = [[[]]]
    end = 0
    for mark in _MARKS.finditer(text):
        if mark.start() > end:
            stack[-1][-1].append(text[end : mark.start()])
        end = mark.end()
        sign = mark.group()
        if sign == "[":
            stack.append([[]])
        elif len(stack) == 1 and sign in "]|":
            raise ValueError(f"pattern {text!r} has {sign!r} at {mark.start()} outside of [...]")
        elif sign == "|":
            stack[-1].append([])
        elif sign == "]":
            options = stack.pop()
            stack[-1][-1].append(Choice(tuple(tuple(option) for option in options)))
        else:
            stack[-1][-1].append(_slot(sign[1:-1], text))
    if len(stack) > 1:
        raise ValueError(f"pattern {text!r} opens a [ that it does not close; add the ]")
    if end < len(text):
        stack[-1][-1].append(text[end:])
    return tuple(stack[0][0])


def _slot(name: str, text: str) -> Slot | Number:
    if not name.startswith("#"):
        return Slot(name)
    low, _dash, high = name[1:].partition("-")
    try:
        digits = len(low.partition(".")[2])
        return Number(float(low), float(high), digits)
    except ValueError:
        hint = "write {#low-high}, such as {#3-40}"
        raise ValueError(f"pattern {text!r} has the number range {name!r}; {hint}") from None


def expand(pattern: Pattern, rng: random.Random, fill: Callable[[str], str]) -> str:
    """Write a pattern out: draw its alternatives and numbers, fill its slots."""
    parts: list[str] = []
    for part in pattern:
        if isinstance(part, str):
            parts.append(part)
        elif isinstance(part, Choice):
            option = part.options[int(rng.random() * len(part.options))]
            # Most alternatives are one plain word: no need to call for it.
            plain = option[0] if len(option) == 1 else None
            parts.append(plain if isinstance(plain, str) else expand(option, rng, fill))
        elif isinstance(part, Slot):
            parts.append(fill(part.name))
        else:
            parts.append(_number(part, rng))
    return "".join(parts)


def _number(part: Number, rng: random.Random) -> str:
    step = 10**part.digits
    span = round((part.high - part.low) * step) + 1
    drawn = round(part.low * step) + int(rng.random() * span)
    return f"{drawn / step:.{part.digits}f}"


def alternatives(pattern: Pattern) -> Iterator[tuple[str, ...]]:
    """Yield each set of plain words that a pattern treats as interchangeable.

    These are what an editor may swap for one another, so the grammar is also the thesaurus that
    edits are made from.
    """
    for part in pattern:
        if not isinstance(part, Choice):
            continue
        plain = tuple(
            option[0] for option in part.options if len(option) == 1 and isinstance(option[0], str)
        )
        if len(plain) > 1:
            yield plain
        for option in part.options:
            yield from alternatives(option)
