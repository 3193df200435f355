"""Documents of one length for benchmarks, from the demo's generator or cut from a file."""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar

from benchmarks.command import add_number
from benchmarks.report import Figures, machine
from streams.corpus.corpus import generate
from streams.corpus.generated import EditKind

SEED: Final = 20_070_508
CHARACTERS: Final = 500

_SPOTS_MAX: Final = 4
_SPOT_CHARACTERS: Final = 6
_ARTICLES_MAX: Final = 10_000_000
_Item = TypeVar("_Item")


def add_text_options(parser: argparse.ArgumentParser, documents: int) -> None:
    add_number(parser, "--count", documents, "documents")
    add_number(parser, "--characters", CHARACTERS, "characters of each document")
    parser.add_argument(
        "--documents",
        type=Path,
        metavar="FILE",
        help='cut the texts from the field "text" of these JSON lines (also .gz)',
    )


def texts_of(options: argparse.Namespace) -> tuple[str, list[str]]:
    """Return the name of the documents, and the documents.

    Raises ``SystemExit`` with a message if the file has none.
    """
    path, characters = options.documents, options.characters
    if path is None:
        return "generated", generated_documents(options.count, characters)
    read = json_lines(path, "a text", lambda line: line["text"][:characters])
    texts = list(islice((text for text in read if len(text) == characters), options.count))
    if not texts:
        raise SystemExit(f"{path} has no text of {characters} characters")
    return path.name, texts


def described(texts: Sequence[str], source: str, rounds: int) -> Figures:
    return {
        "machine": machine(),
        "documents": len(texts),
        "characters": max(map(len, texts)),
        "source": source,
        "rounds": rounds,
    }


def generated_documents(count: int, characters: int) -> list[str]:
    """Return ``count`` Chinese texts, cut from generated articles; each call returns the same."""
    texts, text = list[str](), ""
    articles = generate(SEED, _ARTICLES_MAX, {EditKind.ORIGINAL: 1.0}, chinese=1.0)
    while len(texts) < count:
        value = next(articles).value
        assert value is not None
        text += json.loads(value)["text"]
        if len(text) >= characters:
            texts.append(text[:characters])
            text = ""
    return texts


def with_copies(texts: Sequence[str], share: float) -> list[str]:
    """Return as many documents; ``share`` of them are earlier documents with a few edits."""
    chance = random.Random(SEED)
    fresh, mixed = iter(texts), list[str]()
    for _ in texts:
        if mixed and chance.random() < share:
            mixed.append(_edited(chance, chance.choice(mixed), chance.choice(texts)))
        else:
            mixed.append(next(fresh))
    return mixed


def _edited(chance: random.Random, text: str, other: str) -> str:
    for _ in range(chance.randint(0, _SPOTS_MAX)):
        here = chance.randrange(max(1, len(text) - _SPOT_CHARACTERS))
        there = chance.randrange(max(1, len(other) - _SPOT_CHARACTERS))
        spot = other[there : there + _SPOT_CHARACTERS]
        text = text[:here] + spot + text[here + _SPOT_CHARACTERS :]
    return text


def json_lines(path: Path, what: str, read: Callable[[Any], _Item]) -> Iterator[_Item]:
    """Yield what ``read`` returns for each JSON line of a file, which is gzip if its name says so.

    Raises ``SystemExit`` with a message if a line does not have ``what``.
    """
    try:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                yield read(json.loads(line))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SystemExit(f"{path}: JSON lines with {what} each are needed: {error!r}") from error
