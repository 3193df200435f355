"""What an article can be about: the vocabulary of one topic, sorted by grammatical role.

A sentence pattern names roles, never words, so one pattern serves every topic and no two topics
share content words. Every entry may itself be a pattern (grammar.py).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from streams.corpus.grammar import Pattern, entries, parse


@dataclass(frozen=True, slots=True)
class Topic:
    """The vocabulary of one topic in one language."""

    name: str
    """What the topic is called, as a heading would."""
    things: tuple[Pattern, ...]
    """Nouns (English: in the plural): what the articles are about."""
    actors: tuple[Pattern, ...]
    """What a person of the field is called, one person (also before a name)."""
    crowds: tuple[Pattern, ...]
    """The same people as a group."""
    offices: tuple[Pattern, ...]
    """Public bodies, as they stand after the name of a place."""
    firms: tuple[Pattern, ...]
    """Companies, as they stand after a trade name."""
    actions: tuple[Pattern, ...]
    """What one does in the field: verb and object (English: the base form)."""
    sites: tuple[Pattern, ...]
    """Where it happens (English: with the article)."""
    problems: tuple[Pattern, ...]
    """What goes wrong: a noun phrase."""
    results: tuple[Pattern, ...]
    """What came of it: a clause."""
    figures: tuple[Pattern, ...]
    """A measured quantity: a clause with a number."""
    views: tuple[Pattern, ...]
    """What one may say about it: a clause for between quotation marks."""
    scenes: tuple[Pattern, ...]
    """What a reporter sees there: a sentence without its full stop."""


_LEAST_ENTRIES = {"things": 24, "actions": 12, "problems": 8, "views": 7, "scenes": 7}


def topic(name: str, space: str = "", **roles: str) -> Topic:
    """Build a topic from one word list a role (`;` between entries).

    Raises:
        ValueError: a role is missing, or has too few entries to tell two articles apart.
    """
    read: dict[str, tuple[Pattern, ...]] = {}
    for field in fields(Topic):
        if field.name == "name":
            continue
        if field.name not in roles:
            raise ValueError(f"topic {name!r} lacks the role {field.name!r}; add its word list")
        found = tuple(parse(entry) for entry in entries(roles[field.name], space))
        least = _LEAST_ENTRIES.get(field.name, 3)
        if len(found) < least:
            given = f"topic {name!r} has {len(found)} entries of {field.name!r}"
            raise ValueError(f"{given}; an article needs at least {least}")
        read[field.name] = found
    return Topic(name=name, **read)
