"""English verb forms: an action is listed once, and needed in four forms.

    close nine branches    closing nine branches    closed ...    (has) closed ...

Only the first word of an action changes. The rules are those of the regular verb; what they get
wrong for the verbs that our word lists use is in two short tables.
"""

from __future__ import annotations

_IRREGULAR = {  # past, participle
    "break": ("broke", "broken"),
    "breed": ("bred", "bred"),
    "bring": ("brought", "brought"),
    "build": ("built", "built"),
    "cut": ("cut", "cut"),
    "dig": ("dug", "dug"),
    "draw": ("drew", "drawn"),
    "feed": ("fed", "fed"),
    "freeze": ("froze", "frozen"),
    "grind": ("ground", "ground"),
    "hold": ("held", "held"),
    "keep": ("kept", "kept"),
    "lend": ("lent", "lent"),
    "let": ("let", "let"),
    "light": ("lit", "lit"),
    "pay": ("paid", "paid"),
    "relay": ("relaid", "relaid"),
    "relight": ("relit", "relit"),
    "rewrite": ("rewrote", "rewritten"),
    "run": ("ran", "run"),
    "sell": ("sold", "sold"),
    "send": ("sent", "sent"),
    "sow": ("sowed", "sown"),
    "split": ("split", "split"),
    "take": ("took", "taken"),
    "teach": ("taught", "taught"),
    "tear": ("tore", "torn"),
    "write": ("wrote", "written"),
}
_DOUBLING = (
    "ban",
    "cap",
    "cut",
    "dig",
    "dim",
    "drop",
    "fit",
    "label",
    "let",
    "map",
    "plug",
    "refit",
    "rewet",
    "rig",
    "run",
    "scan",
    "scrap",
    "strip",
    "swap",
    "tag",
    "trim",
)


def _doubled(verb: str) -> str:
    return verb + verb[-1] if verb in _DOUBLING else verb


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
    form = _IRREGULAR[verb][0] if verb in _IRREGULAR else _regular_past(verb)
    return form + space + rest


def participle(action: str) -> str:
    """Put an action in the form that follows has and had."""
    verb, space, rest = action.partition(" ")
    form = _IRREGULAR[verb][1] if verb in _IRREGULAR else _regular_past(verb)
    return form + space + rest
