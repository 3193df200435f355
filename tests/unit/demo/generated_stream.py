"""The generated stream that the tests of the demo look at, and ways to compare its texts."""

from __future__ import annotations

import json
import unicodedata
from functools import cache
from typing import Any

from streams.corpus.corpus import generate
from streams.corpus.generated import BROKEN, EditKind, GeneratedRecord

SEED = 2024
DOCUMENTS = 2_500


@cache
def stream() -> tuple[GeneratedRecord, ...]:
    """Generate the stream that most tests look at."""
    return tuple(generate(SEED, DOCUMENTS))


@cache
def readable() -> dict[str, dict[str, Any]]:
    """Return the JSON objects of all records that are not broken, by document id."""
    return {
        record.id: json.loads(record.value)
        for record in stream()
        if record.id is not None and record.value is not None and record.kind not in BROKEN
    }


def text_of(doc_id: str | None) -> str:
    """Return the text of a document of the stream."""
    assert doc_id is not None
    text = readable()[doc_id]["text"]
    assert isinstance(text, str)
    return text


def of_kind(*kinds: EditKind) -> list[GeneratedRecord]:
    """Return the records of these kinds."""
    return [record for record in stream() if record.kind in kinds]


def is_chinese(text: str) -> bool:
    """Tell Chinese from English."""
    return any("\u4e00" <= sign <= "\u9fff" for sign in text)


def content(text: str) -> str:
    """Return what two texts must share to be exactly equal in content."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def letters(text: str) -> str:
    """Return the letters and digits of a text, without case and width."""
    return "".join(filter(str.isalnum, content(text)))


def shingles(text: str) -> frozenset[str]:
    """Return the character 5-grams of a text's content."""
    text = content(text)
    return frozenset(text[at : at + 5] for at in range(len(text) - 4))


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the share of what both sets hold in what either holds."""
    return len(one & other) / len(one | other)
