"""Documents of one length to measure on: written by the demo's generator, or cut from a file."""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Final

from streams.corpus.corpus import generate
from streams.corpus.generated import CorpusShape

SEED: Final = 20_070_508
CHARACTERS: Final = 500

_SPOTS_MOST: Final = 4
_SPOT_CHARACTERS: Final = 6
_ARTICLES_MOST: Final = 10_000_000
_ONLY_ORIGINALS: Final = CorpusShape(
    chinese=1.0,
    original=1.0,
    exact_copy=0.0,
    typographic=0.0,
    repost=0.0,
    edit_1_5=0.0,
    edit_5_10=0.0,
    edit_10_20=0.0,
    truncated=0.0,
    reordered=0.0,
    short_post=0.0,
    emoji=0.0,
    punctuation=0.0,
    empty=0.0,
    broken=0.0,
)


def add_text_options(parser: argparse.ArgumentParser, documents: int) -> None:
    """Add the options by which ``texts_of`` is asked."""
    parser.add_argument("--count", type=int, default=documents, help="documents (%(default)s)")
    parser.add_argument(
        "--characters", type=int, default=CHARACTERS, help="of each document (%(default)s)"
    )
    parser.add_argument(
        "--documents",
        type=Path,
        metavar="FILE",
        help='cut them from the "text" of these JSON lines (.gz too), instead of generated ones',
    )


def texts_of(options: argparse.Namespace) -> list[str]:
    """Return the documents asked for, at least one.

    Raises ``SystemExit`` with a message for options and files that do not give any.
    """
    if options.count < 1 or options.characters < 1:
        raise SystemExit("--count and --characters must be 1 or more")
    if options.documents is None:
        return generated_documents(options.count, options.characters)
    texts = list(islice(file_texts(options.documents, options.characters), options.count))
    if not texts:
        raise SystemExit(f"{options.documents} has no text of {options.characters} characters")
    return texts


def generated_documents(count: int, characters: int) -> list[str]:
    """Return so many generated documents; the same ones each time."""
    return list(islice(generated_texts(characters), count))


def with_copies(texts: Sequence[str], share: float) -> list[str]:
    """Return as many documents, of which a share copies an earlier one with a few spots edited."""
    chance = random.Random(SEED)
    fresh, mixed = iter(texts), list[str]()
    for _ in texts:
        if mixed and chance.random() < share:
            mixed.append(_edited(chance, chance.choice(mixed), chance.choice(texts)))
        else:
            mixed.append(next(fresh))
    return mixed


def _edited(chance: random.Random, text: str, other: str) -> str:
    for _ in range(chance.randint(0, _SPOTS_MOST)):
        here = chance.randrange(max(1, len(text) - _SPOT_CHARACTERS))
        there = chance.randrange(max(1, len(other) - _SPOT_CHARACTERS))
        spot = other[there : there + _SPOT_CHARACTERS]
        text = text[:here] + spot + text[here + _SPOT_CHARACTERS :]
    return text


def generated_texts(characters: int, seed: int = SEED) -> Iterator[str]:
    """Write Chinese articles; each text begins with one, and others follow until it is full."""
    text = ""
    for record in generate(seed, _ARTICLES_MOST, _ONLY_ORIGINALS):
        assert record.value is not None
        text += json.loads(record.value)["text"]
        if len(text) >= characters:
            yield text[:characters]
            text = ""


def file_texts(path: Path, characters: int) -> Iterator[str]:
    """Read the first characters of each text in a file that is long enough."""
    try:
        with _open(path) as lines:
            for line in lines:
                text = json.loads(line)["text"]
                if len(text) >= characters:
                    yield text[:characters]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SystemExit(f"{path}: JSON lines with a text each are needed: {error!r}") from error


def _open(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")
