"""Labelled files: documents, and judged pairs of them.

Documents are JSON lines with ``id``, ``text`` and optional ``group``. Pairs are tab-separated,
under a header that names ``id1``, ``id2``, ``label`` and optional ``jaccard`` in any order. Both
may be gzip. The first unreadable line is an error, because without it the figures would not
describe the whole file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, NoReturn

from simhash_core.documents import Document
from simhash_core.errors import FirstseenError, UsageError
from streams.documents.fields import Field
from streams.documents.json_values import UnreadableError, decode_json, decode_text
from streams.evaluation.figures import LABELS, LabelledPair
from streams.files.input_lines import STANDARD_INPUT, InputLines, Line
from streams.files.text_files import Refused, documents_in
from streams.settings.settings import Settings

GROUP: Final = "group"
PAIR_LINE_BYTES_MAX: Final = 1 << 16

_COLUMNS: Final = ("id1", "id2", "label")
_JACCARD: Final = "jaccard"


class LabelledFileError(FirstseenError):
    """A file of documents or pairs is invalid; the message names the line."""


class LabelledDocuments(NamedTuple):
    """``by_line`` has the number of each document by the number of its line, both from 0."""

    ids: Sequence[str]
    groups: Sequence[str | None]
    by_line: Mapping[int, int]


def read_documents(file: str, settings: Settings) -> LabelledDocuments:
    """Read ids and groups; raise ``LabelledFileError`` for the first line that is no document.

    Raises ``UsageError`` for a file that cannot be opened, ``InputFileError`` for a damaged one.
    """
    if file == STANDARD_INPUT:
        raise UsageError("--documents is read more than once: name a file, not standard input")
    group_field = Field(GROUP)
    ids: list[str] = []
    groups: list[str | None] = []
    by_line: dict[int, int] = {}
    line_of: dict[str, int] = {}
    for line, document in _documents(file, settings):
        if document.id == str(document.source):
            why = f'it has no "{settings.fields.id}", by which the pairs name documents'
            _refuse(file, line, why)
        if document.id in line_of:
            first = line_of[document.id] + 1
            _refuse(file, line, f"the id {document.id!r} is also that of line {first}")
        assert line.content is not None
        try:
            content = decode_json(line.content)
            group = group_field.identifier(content) if isinstance(content, dict) else None
        except UnreadableError as error:
            _refuse(file, line, error.detail)
        line_of[document.id] = line.number
        by_line[line.number] = len(ids)
        ids.append(document.id)
        groups.append(group)
    if not ids:
        raise LabelledFileError(f"{file} has no documents")
    return LabelledDocuments(ids, groups, by_line)


def documents_again(file: str, settings: Settings) -> Iterator[Document]:
    """Yield the documents of a file that ``read_documents`` has read, in order of numbers."""
    for _, document in _documents(file, settings):
        yield document


def read_pairs(file: str, documents: LabelledDocuments) -> list[LabelledPair]:
    """Read labelled pairs; raise ``LabelledFileError`` for the first invalid line.

    A repeated pair, in either order, counts once.
    """
    numbers = {id_: number for number, id_ in enumerate(documents.ids)}
    pairs: dict[tuple[int, int], tuple[LabelledPair, Line]] = {}
    with InputLines(file, PAIR_LINE_BYTES_MAX) as lines:
        columns: Mapping[str, int] | None = None
        for line in lines:
            if line.is_blank:
                continue
            fields = _fields(file, line)
            if columns is None:
                columns = _header(file, line, fields)
                continue
            pair = _pair(file, line, fields, columns, numbers)
            earlier = pairs.setdefault((pair.first, pair.second), (pair, line))
            if earlier[0].label != pair.label:
                before = f"in line {earlier[1].number + 1} the same pair has {earlier[0].label}"
                _refuse(file, line, f"the label is {pair.label}, and {before}")
    if columns is None:
        raise LabelledFileError(f"{file} is empty: its first line must name {_wanted()}")
    if not pairs:
        raise LabelledFileError(f"{file} has no pairs below its header")
    return [pair for pair, _ in pairs.values()]


def _documents(file: str, settings: Settings) -> Iterator[tuple[Line, Document]]:
    for line, item in documents_in(file, settings):
        if isinstance(item, Refused):
            _refuse(file, line, item.detail)
        yield line, item


def _fields(file: str, line: Line) -> list[str]:
    if line.content is None:
        _refuse(file, line, f"it has {line.size} bytes, the limit is {PAIR_LINE_BYTES_MAX}")
    try:
        text = decode_text(line.content)
    except UnreadableError as error:
        _refuse(file, line, error.detail)
    return text.rstrip("\r").split("\t")


def _header(file: str, line: Line, fields: list[str]) -> dict[str, int]:
    columns = {name.strip(): at for at, name in enumerate(fields)}
    missing = [name for name in _COLUMNS if name not in columns]
    if missing:
        wanted = f"it must name {_wanted()}, separated by tabs"
        _refuse(file, line, f"the header names no {' and no '.join(missing)}: {wanted}")
    return columns


def _pair(
    file: str, line: Line, fields: list[str], columns: Mapping[str, int], numbers: Mapping[str, int]
) -> LabelledPair:
    if len(fields) != len(columns):
        _refuse(file, line, f"it has {len(fields)} fields, the header {len(columns)}")
    ends = []
    for column in ("id1", "id2"):
        id_ = fields[columns[column]]
        if id_ not in numbers:
            _refuse(file, line, f"{column} is {id_!r}: no document has this id")
        ends.append(numbers[id_])
    if ends[0] == ends[1]:
        _refuse(
            file,
            line,
            f"both ids are {fields[columns['id1']]!r}: a pair needs two different documents",
        )
    label = fields[columns["label"]].strip()
    if label not in map(str, LABELS):
        _refuse(file, line, f"the label is {label!r}: it must be 1, 0 or -1 (do not score)")
    jaccard = fields[columns[_JACCARD]].strip() if _JACCARD in columns else ""
    return LabelledPair(min(ends), max(ends), int(label), _jaccard(file, line, jaccard))


def _jaccard(file: str, line: Line, text: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        _refuse(file, line, f"the jaccard is {text!r}: it must be from 0 to 1, or empty")
    return value


def _wanted() -> str:
    return f"{', '.join(_COLUMNS)} and, if known, {_JACCARD}"


def _refuse(file: str, line: Line, why: str) -> NoReturn:
    raise LabelledFileError(f"{file}, line {line.number + 1}: {why}")
