"""English verb forms: an action is listed once, and needed in four forms.

    close nine branches    closing nine branches    closed ...    (has) closed ...

Only the first word of an action changes. The rules are those of the regular verb; the verbs of our
word lists that follow other rules are in the chapter `verbs` of words/en/words.txt.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from streams.corpus.word_lists import chapters


@cache
def _irregular() -> Mapping[str, tuple[str, str]]:
    """Return past and participle by base form."""
    forms = (line.split() for line in chapters("en", "words")["verbs"]["irregular"])
    return {base: (past_form, participle_form) for base, past_form, participle_form in forms}


@cache
def _doubling() -> frozenset[str]:
    """Return the verbs that double their last letter."""
    return frozenset(" ".join(chapters("en", "words")["verbs"]["doubling"]).split())


def _doubled(verb: str) -> str:
    return verb + verb[-1] if verb in _doubling() else verb


def _regular_past(verb: str) -> str:
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ied"
    return _doubled(verb) + "ed"


def same(action: str) -> str:
    """Leave an action in its base form."""
    return action


def gerund(action: str) -> str:
    """Put an action in the -ing form."""
    verb, space, rest = action.partition(" ")
    stem = verb[:-1] if verb.endswith("e") else _doubled(verb)
    return f"{stem}ing{space}{rest}"


def past(action: str) -> str:
    """Put an action in the past."""
    verb, space, rest = action.partition(" ")
    form = _irregular()[verb][0] if verb in _irregular() else _regular_past(verb)
    return form + space + rest


def participle(action: str) -> str:
    """Put an action in the form that follows has and had."""
    verb, space, rest = action.partition(" ")
    form = _irregular()[verb][1] if verb in _irregular() else _regular_past(verb)
    return form + space + rest
