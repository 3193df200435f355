"""The grammar of the demo articles: alternatives, slots, numbers, and the forms of verbs."""

from __future__ import annotations

import random

import pytest

from streams.corpus.articles import Cast
from streams.corpus.edits import thesaurus_of
from streams.corpus.language import (
    LANGUAGES,
    alternatives,
    expand,
    parse,
    read_chapters,
    read_topic,
)


def written(pattern: str, seed: int = 1) -> str:
    """Write a pattern out with slots that fill with their own names."""
    return expand(parse(pattern), random.Random(seed), lambda slot: slot.upper())


def test_alternatives_slots_and_numbers() -> None:
    """Given a pattern with all three, then each draw is one of its sentences."""
    seen = {written("[据悉|[记者|我们]获悉]，{place}有{#3-5}处", seed) for seed in range(200)}
    openings = ("据悉", "记者获悉", "我们获悉")
    assert seen == {f"{opening}，PLACE有{n}处" for opening in openings for n in (3, 4, 5)}


def test_a_number_keeps_the_digits_of_its_range() -> None:
    """Given a range with one digit after the point, then the number has one as well."""
    seen = {written("{#0.8-1.1}", seed) for seed in range(100)}
    assert seen == {"0.8", "0.9", "1.0", "1.1"}


def test_an_empty_alternative_may_be_drawn() -> None:
    """Given an alternative without text, then nothing is written for it."""
    assert {written("a[|b]", seed) for seed in range(50)} == {"a", "ab"}


@pytest.mark.parametrize("broken", ["[a|b", "a]", "a|b", "{#3}", "{#a-b}"])
def test_a_pattern_that_cannot_be_read_is_named(broken: str) -> None:
    """Given a pattern with a mistake, then the error shows it."""
    with pytest.raises(ValueError, match="pattern"):
        parse(broken)


def test_a_word_list_has_chapters_sections_and_entries() -> None:
    """Given the text of a word list, then notes and blank lines are left out, and an entry may
    begin with a bracket or a slot.
    """
    farming = "# Farming\n\n## things\n[winter|spring] barley\n{#3-9} hens\n"
    text = f"> a note\n\n{farming}\n# titles\nnews\n"
    assert read_chapters(text, "words.txt") == {
        "Farming": {"things": ("[winter|spring] barley", "{#3-9} hens")},
        "titles": {"": ("news",)},
    }


def test_an_entry_outside_of_a_chapter_is_named() -> None:
    """Given an entry before the first chapter, then the error names file and line."""
    with pytest.raises(ValueError, match=r"words\.txt, line 2"):
        read_chapters("> a note\nbarley\n", "words.txt")


def test_only_plain_words_are_interchangeable() -> None:
    """Given nested alternatives, then the plain words of one level form a set."""
    found = set(alternatives(parse("[甲|乙|{slot}丙]的[丁[戊|己]|庚]")))
    assert found == {("甲", "乙"), ("戊", "己")}


def test_a_topic_without_a_role_is_refused() -> None:
    """Given a topic that lacks word lists, then the error names topic and role."""
    with pytest.raises(ValueError, match=r"'园艺'.*'things'"):
        read_topic("园艺", {})


@pytest.mark.parametrize("code", sorted(LANGUAGES))
def test_every_pattern_can_be_written_in_every_topic(code: str) -> None:
    """Given each sentence, title, phrase and word of a language, then all its slots are filled."""
    language = LANGUAGES[code]
    rng = random.Random(9)
    for subject in language.topics:
        cast = Cast(rng, language, subject)
        for lists in (*language.voices, language.phrases, {"title": language.titles}):
            for section, patterns in lists.items():
                for pattern in patterns:
                    sentence = expand(pattern, rng, cast.fill)
                    assert sentence.strip() == sentence, (section, sentence)
                    assert not set(sentence) & set("[]{}|"), (section, sentence)


def test_the_thesaurus_divides_a_text_without_loss() -> None:
    """Given a text, then its units put together are the text, and known words have others."""
    text = "据悉，滴灌带和冬小麦也被列入名单，亩产达到612公斤。"
    units = thesaurus_of("zh", "农业").units(text)
    assert "".join(unit.text for unit in units) == text
    wheat = next(unit for unit in units if unit.text == "冬小麦")
    assert "早稻" in wheat.alternatives
    assert "612" in [unit.text for unit in units]
