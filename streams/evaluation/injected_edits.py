"""Makes near-duplicates of unlabelled texts by realistic edits.

Insertions come from another text of the collection. Equal random numbers give equal edits.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from simhash_core.analysis.exact_similarity import exact_jaccard
from simhash_core.documents import Document
from simhash_core.text.normalization import normalize
from streams.corpus.draws import pick
from streams.corpus.edits import change_words, reorder, repost, retype, truncate
from streams.corpus.language import LANGUAGES, Language
from streams.evaluation.dedup_pass import decide, exact_jaccards, named_by
from streams.evaluation.evaluation import Labelled, read_labelled
from streams.evaluation.figures import FALSE_DUPLICATE_BELOW, POSITIVE, UNSCORED
from streams.evaluation.labelled_files import LabelledFileError, documents_again, read_documents
from streams.settings.settings import IndexSettings, Settings

SHARE_MIN: Final = 0.02
SHARE_MAX: Final = 0.15
"""Share of the words (Chinese: characters) of a text that an edit of words touches."""

_CHINESE_SHARE: Final = 0.15
_CHINESE: Final = re.compile(r"[\u3400-\u9fff]")
_STOPS: Final = "。！？!?\n"
_SENTENCE: Final = re.compile(rf"[^{_STOPS}.]*(?:[{_STOPS}]+|\.+\s*|$)")


class Edit(StrEnum):
    SUBSTITUTE = "substitute"
    INSERT = "insert"
    DELETE = "delete"
    SENTENCES = "sentences"
    REORDER = "reorder"
    TRUNCATE = "truncate"
    BOILERPLATE = "boilerplate"
    RETYPE = "retype"


EDITS: Final = tuple(Edit)


class _Draw(NamedTuple):
    rng: random.Random
    text: str
    other: str
    share: float

    @property
    def language(self) -> Language:
        chinese = len(_CHINESE.findall(self.text))
        return LANGUAGES["zh" if chinese > len(self.text) * _CHINESE_SHARE else "en"]


def edited(rng: random.Random, edit: Edit, text: str, other: str, share: float) -> str:
    """Return an edited ``text``; edits of words and sentences touch ``share`` of it.

    ``other`` supplies insertions. A text that is too short for the edit is returned unchanged.
    """
    return _EDITS[edit](_Draw(rng, text, other, share))


def drawn_share(rng: random.Random) -> float:
    return SHARE_MIN + (SHARE_MAX - SHARE_MIN) * rng.random()


def _sentences(draw: _Draw) -> str:
    sentences = _sentences_of(draw.text)
    source = _sentences_of(draw.other)
    for _ in range(max(1, round(len(sentences) * draw.share))):
        at = int(draw.rng.random() * len(sentences))
        what = draw.rng.random()
        new = [pick(draw.rng, source)] if source and what < 2 / 3 else []
        removed = 1 if what > 1 / 3 and len(sentences) > 1 else 0
        sentences[at : at + removed] = new
    return "".join(sentences)


def _sentences_of(text: str) -> list[str]:
    return [sentence for sentence in _SENTENCE.findall(text) if sentence]


def _boilerplate(draw: _Draw) -> str:
    title = draw.text.strip().partition("\n")[0][:40]
    return repost(draw.rng, draw.language, title, draw.text)


_EDITS: Final[Mapping[Edit, Callable[[_Draw], str]]] = {
    Edit.SUBSTITUTE: lambda draw: change_words(*draw),
    Edit.INSERT: lambda draw: change_words(*draw, takes=False),
    Edit.DELETE: lambda draw: change_words(*draw, puts=False),
    Edit.SENTENCES: _sentences,
    Edit.REORDER: lambda draw: reorder(draw.rng, draw.language, draw.text),
    Edit.TRUNCATE: lambda draw: truncate(draw.rng, draw.language, draw.text),
    Edit.BOILERPLATE: _boilerplate,
    Edit.RETYPE: lambda draw: retype(draw.rng, draw.language, draw.text),
}


class EditedCopy(NamedTuple):
    of: int
    edits: tuple[Edit, ...]
    text: str


def edited_copies(texts: Sequence[str], copies: int, seed: int) -> list[EditedCopy]:
    """Return ``copies`` edited copies of each text; kinds take turns, every fourth has two edits.

    The same texts and seed give the same copies.
    """
    rng = random.Random(seed)  # noqa: S311 - a sample, not a secret
    copies_of_all = []
    for number in range(len(texts) * copies):
        of = number // copies
        edits = [EDITS[number % len(EDITS)]]
        if number % 4 == 3:  # noqa: PLR2004 - every fourth
            edits.append(pick(rng, EDITS))
        text = texts[of]
        for edit in edits:
            other = pick(rng, texts)
            text = edited(rng, edit, text, other, drawn_share(rng))
        copies_of_all.append(EditedCopy(of, tuple(edits), text))
    return copies_of_all


# ---- A labelled sample of unlabelled documents: originals and edited copies.
#
# Documents are drawn at random. Those that repeat others, by the deduplicator and the exact
# Jaccard of the normalised texts, are left out, so that each join of two originals is wrong. A copy
# is a positive of its original if the two share half of their character 5-grams; otherwise it is
# not scored.

_encode: Final = msgspec.json.Encoder().encode


class InjectedSample(NamedTuple):
    """``repeats`` is the number of drawn documents that repeat others, and are left out."""

    labelled: Labelled
    drawn: int
    repeats: int
    originals: int
    copies: int


def inject(
    file: str, settings: Settings, directory: Path, *, size: int, copies: int, seed: int
) -> InjectedSample:
    """Draw up to ``size`` documents of ``file``, and write the sample into ``directory``.

    Originals come before copies. The sample's fields have their default names. Raises what
    ``read_documents`` raises.
    """
    drawn = _drawn(file, settings, size, seed)
    if not drawn:
        raise LabelledFileError(f"{file} has no documents with text to make copies of")
    # Only with folding are texts in both Chinese scripts repeats of each other.
    folding = IndexSettings(fold_traditional=settings.index.fold_traditional)
    plain = Settings(max_record_bytes=settings.max_record_bytes, index=folding)
    path = directory / "drawn.jsonl"
    _write(path, [_record(str(number), each) for number, each in enumerate(drawn)])
    kept = _without_repeats(str(path), plain, drawn)
    texts = [document.text for document in kept]
    # Copies of which nothing is left would repeat each other.
    edited = [copy for copy in edited_copies(texts, copies, seed) if copy.text.strip()]
    labelled = labelled_copies(directory, kept, edited, plain)
    return InjectedSample(labelled, len(drawn), len(drawn) - len(kept), len(kept), len(edited))


def labelled_copies(
    directory: Path, originals: Sequence[Document], copies: Sequence[EditedCopy], settings: Settings
) -> Labelled:
    """Write originals, copies of them, and their pairs into ``directory``, and read them.

    A copy with less than half of its original is unscored.
    """
    records = [_record(f"{number}", each, f"{number}") for number, each in enumerate(originals)]
    pairs = ["id1\tid2\tlabel\tjaccard"]
    for number, copy in enumerate(copies):
        name = f"{copy.of}-{number}"
        original = originals[copy.of]
        records.append(
            _record(name, msgspec.structs.replace(original, text=copy.text), f"{copy.of}")
        )
        jaccard = exact_jaccard(original.text, copy.text)
        label = POSITIVE if jaccard >= FALSE_DUPLICATE_BELOW else UNSCORED
        pairs.append(f"{copy.of}\t{name}\t{label}\t{jaccard:.4f}")
    _write(directory / "sample.jsonl", records)
    (directory / "pairs.tsv").write_text("\n".join(pairs), "utf-8")
    return read_labelled(str(directory / "sample.jsonl"), str(directory / "pairs.tsv"), settings)


def _drawn(file: str, settings: Settings, size: int, seed: int) -> list[Document]:
    """Draw documents with text, all equally likely (Vitter's algorithm R)."""
    rng = random.Random(seed)  # noqa: S311 - a sample, not a secret
    drawn: list[Document] = []
    seen = 0
    for document in documents_again(file, settings):
        if not document.text.strip():
            continue
        seen += 1
        if len(drawn) < size:
            drawn.append(document)
        elif (at := int(rng.random() * seen)) < size:
            drawn[at] = document
    return drawn


def _without_repeats(file: str, settings: Settings, drawn: list[Document]) -> list[Document]:
    decided = decide(file, settings, read_documents(file, settings))
    named = named_by(decided.originals)
    # Raw texts of the same content may share nothing: full-width letters, for example.
    simplify = bool(settings.index.fold_traditional)
    normal = (
        msgspec.structs.replace(document, text=normalize(document.text, simplify=simplify))
        for document in documents_again(file, settings)
    )
    jaccards = exact_jaccards(normal, named)
    repeats = {
        duplicate
        for (duplicate, _), jaccard in jaccards.items()
        if jaccard >= FALSE_DUPLICATE_BELOW
    }
    return [document for number, document in enumerate(drawn) if number not in repeats]


def _record(name: str, document: Document, group: str | None = None) -> dict[str, object]:
    record: dict[str, object] = {
        "id": name,
        "text": document.text,
        "title": document.title,
        "keywords": document.keywords,
        "tags": document.tags,
        "references": document.references,
    }
    return record if group is None else record | {"group": group}


def _write(path: Path, records: list[dict[str, object]]) -> None:
    path.write_bytes(b"".join(_encode(record) + b"\n" for record in records))
