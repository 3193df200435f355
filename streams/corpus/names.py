"""Names of people, places and companies, put together from parts: none is meant to be real."""

from __future__ import annotations

import random
from typing import Final

from streams.corpus.draws import chance, pick, pick_skewed
from streams.corpus.word_lists import Sections, chapters


class ChineseNames:
    """Makes Chinese names, from single characters."""

    def __init__(self, parts: Sections) -> None:
        characters = {name: "".join(lines) for name, lines in parts.items()}
        self._parts: Final = characters
        self._ranks: Final = " ".join(parts["place_ranks"]).split()

    def person(self, rng: random.Random) -> str:
        """Make a person's name of two or three characters."""
        name = pick_skewed(rng, self._parts["surnames"]) + pick(rng, self._parts["given"])
        return name + pick(rng, self._parts["given"]) if chance(rng, 0.8) else name

    def place(self, rng: random.Random) -> str:
        """Make a place name with its rank, such as a county's."""
        first, second = (
            pick(rng, self._parts["place_first"]),
            pick(rng, self._parts["place_second"]),
        )
        return first + second + pick_skewed(rng, self._ranks)

    def brand(self, rng: random.Random) -> str:
        """Make a trade name, to which the line of business is added."""
        return pick(rng, self._parts["brand_first"]) + pick(rng, self._parts["brand_second"])


class EnglishNames:
    """Makes English names, from words and halves of words."""

    def __init__(self, parts: Sections) -> None:
        self._parts: Final = {name: " ".join(lines).split() for name, lines in parts.items()}

    def person(self, rng: random.Random) -> str:
        """Make a person's name: given name and surname."""
        return f"{pick(rng, self._parts['given'])} {pick(rng, self._parts['surnames'])}"

    def place(self, rng: random.Random) -> str:
        """Make the name of a town."""
        return pick(rng, self._parts["place_first"]) + pick_skewed(rng, self._parts["place_second"])

    def brand(self, rng: random.Random) -> str:
        """Make a trade name, to which the line of business is added."""
        if chance(rng, 0.5):
            surnames = self._parts["surnames"]
            return f"{pick(rng, surnames)} & {pick(rng, surnames)}"
        return pick(rng, self._parts["brand_first"]) + pick(rng, self._parts["brand_second"])


CHINESE_NAMES: Final = ChineseNames(chapters("zh", "words")["names"])
ENGLISH_NAMES: Final = EnglishNames(chapters("en", "words")["names"])
