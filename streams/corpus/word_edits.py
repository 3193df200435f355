"""Edits of words: what an editor does to an article that another site prints again.

Words give way to others that fit, numbers change, clauses go and come. The size of an edit is the
share of the text that was touched (replaced, dropped or put in), in the measure of the language:
characters of Chinese, words of English.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from streams.corpus.draws import chance, pick, shuffled
from streams.corpus.grammar import expand
from streams.corpus.language import Language, Topic
from streams.corpus.thesaurus import Thesaurus, Unit

_COMMAS = frozenset("，,；;")
_STOPS = frozenset("。.！!？?")
_CLAUSE_SHARES = (0.0, 0.2, 0.5)  # some editors change words alone, some whole clauses
_MAX_TRIES = 600


def edit_words(
    rng: random.Random,
    language: Language,
    thesaurus: Thesaurus,
    topic: Topic,
    text: str,
    band: tuple[float, float],
) -> str:
    """Edit a share of a text that lies within the band, such as (0.05, 0.1)."""
    total = language.measure(text)
    goal = total * (band[0] + (band[1] - band[0]) * (0.1 + 0.8 * rng.random()))
    edit = _Edit(rng, language, topic, thesaurus.units(text), room=total * band[1])
    clause_share = pick(rng, _CLAUSE_SHARES)
    swaps = iter(shuffled(rng, edit.swappable()))
    for _ in range(_MAX_TRIES):
        if edit.touched >= goal:
            break
        index = None if chance(rng, clause_share) else next(swaps, None)
        if index is not None:
            edit.swap(index)
        elif chance(rng, 0.5):
            edit.drop_clause()
        else:
            edit.add_clause()
    return edit.text()


@dataclass(slots=True)
class _Edit:
    rng: random.Random
    language: Language
    topic: Topic
    units: list[Unit]
    room: float
    touched: int = 0
    _changed: set[int] = field(default_factory=set)

    def text(self) -> str:
        return "".join(unit.text for unit in self.units)

    def swappable(self) -> list[int]:
        return [
            index
            for index, unit in enumerate(self.units)
            if unit.alternatives or unit.text[0].isdigit()
        ]

    def swap(self, index: int) -> None:
        """Put another word, or another number, in the place of this one."""
        old = self.units[index]
        if index in self._changed:
            return
        if old.alternatives:
            others = [word for word in old.alternatives if word != old.text]
            new = pick(self.rng, others)
        else:
            new = _other_number(self.rng, old.text)
        if self._spend(self._difference(old.text, new)):
            self.units[index] = Unit(new, ())
            self._changed.add(index)

    def drop_clause(self) -> None:
        """Leave out what stands between a comma and the next comma or full stop."""
        start = int(self.rng.random() * len(self.units))
        while start < len(self.units) and self.units[start].text not in _COMMAS:
            start += 1
        end = start + 1
        while end < len(self.units) and self.units[end].text not in _COMMAS | _STOPS:
            end += 1
        if end >= len(self.units) or any(index in self._changed for index in range(start, end)):
            return
        clause = "".join(unit.text for unit in self.units[start:end])
        if self._spend(self.language.measure(clause)):
            self._changed.update(range(start, end))
            for index in range(start, end):
                self.units[index] = Unit("", ())

    def add_clause(self) -> None:
        """Put a clause of the same topic before a full stop."""
        index = int(self.rng.random() * len(self.units))
        while index < len(self.units) and self.units[index].text not in {"。", "."}:
            index += 1
        if index >= len(self.units) or index in self._changed:
            return
        clause = expand(pick(self.rng, self.topic.results), self.rng, str)
        clause = f", and {clause}" if self.language.space else f"，{clause}"
        if self._spend(self.language.measure(clause)):
            self.units[index] = Unit(clause + self.units[index].text, ())
            self._changed.add(index)

    def _spend(self, amount: int) -> bool:
        if amount == 0 or self.touched + amount > self.room:
            return False
        self.touched += amount
        return True

    def _difference(self, old: str, new: str) -> int:
        if self.language.space:
            return _changed_items(old.split(), new.split())
        return _changed_items(list(old), list(new))


def _changed_items(old: list[str], new: list[str]) -> int:
    """Count what is left of the longer list when what both begin and end with is taken off."""
    while old and new and old[0] == new[0]:
        old, new = old[1:], new[1:]
    while old and new and old[-1] == new[-1]:
        old, new = old[:-1], new[:-1]
    return max(len(old), len(new))


def _other_number(rng: random.Random, number: str) -> str:
    """Change the digits of a number but the first, so that its size and form stay."""
    first, rest = number[0], number[1:]
    if not any(sign.isdigit() for sign in rest):
        return str(1 + int(rng.random() * 9)) + rest
    return first + "".join(str(int(rng.random() * 10)) if sign.isdigit() else sign for sign in rest)
