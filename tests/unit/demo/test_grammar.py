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


@pytest.mark.parametrize(
    ("pattern", "sentences"),
    [
        (
            "[据悉|[记者|我们]获悉]，{place}有{#3-5}处",
            {f"{who}，PLACE有{n}处" for who in ("据悉", "记者获悉", "我们获悉") for n in (3, 4, 5)},
        ),
        ("{#0.8-1.1}", {"0.8", "0.9", "1.0", "1.1"}),  # as many digits as its range
        ("a[|b]", {"a", "ab"}),
    ],
)
def test_each_draw_is_one_of_the_sentences_of_a_pattern(pattern: str, sentences: set[str]) -> None:
    """Slots are filled with their own names here."""
    rngs = (random.Random(seed) for seed in range(200))
    assert {expand(parse(pattern), rng, str.upper) for rng in rngs} == sentences


@pytest.mark.parametrize("broken", ["[a|b", "a]", "a|b", "{#3}", "{#a-b}"])
def test_a_pattern_that_cannot_be_read_is_named(broken: str) -> None:
    with pytest.raises(ValueError, match="pattern"):
        parse(broken)


def test_a_word_list_has_chapters_sections_and_entries_without_notes() -> None:
    farming = "# Farming\n\n## things\n[winter|spring] barley\n{#3-9} hens\n"
    text = f"> a note\n\n{farming}\n# titles\nnews\n"
    assert read_chapters(text, "words.txt") == {
        "Farming": {"things": ("[winter|spring] barley", "{#3-9} hens")},
        "titles": {"": ("news",)},
    }


def test_an_entry_before_the_first_chapter_is_named_with_its_line() -> None:
    with pytest.raises(ValueError, match=r"words\.txt, line 2"):
        read_chapters("> a note\nbarley\n", "words.txt")


def test_the_plain_words_of_one_level_are_interchangeable() -> None:
    found = set(alternatives(parse("[甲|乙|{slot}丙]的[丁[戊|己]|庚]")))
    assert found == {("甲", "乙"), ("戊", "己")}


def test_a_topic_that_lacks_a_word_list_is_named_with_it() -> None:
    with pytest.raises(ValueError, match=r"'园艺'.*'things'"):
        read_topic("园艺", {})


@pytest.mark.parametrize("code", sorted(LANGUAGES))
def test_every_pattern_can_be_written_in_every_topic(code: str) -> None:
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


def test_the_thesaurus_divides_a_text_without_loss_and_knows_other_words() -> None:
    text = "据悉，滴灌带和冬小麦也被列入名单，亩产达到612公斤。"
    units = thesaurus_of("zh", "农业").units(text)
    assert "".join(unit.text for unit in units) == text
    wheat = next(unit for unit in units if unit.text == "冬小麦")
    assert "早稻" in wheat.alternatives
    assert "612" in [unit.text for unit in units]
