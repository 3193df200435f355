"""Documents become columns and columns become verdicts, without any loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.document_columns import REASON_CODES, BytesColumn, DocumentColumns, joined_columns
from simhash_core.documents import Document, SourcePosition
from simhash_core.log.columns import document_columns, verdict_of
from simhash_core.text.fingerprinter import Fingerprinted, Fingerprinter
from simhash_core.text.profiles import profile_named
from simhash_core.verdicts import DuplicateOf, Match, Method, Undecidable, UndecidableReason, Unique
from tests.unit.core.log.made_to_order import FAR, Made, columns_of

TEXTS = (
    "",
    (
        "昨夜城里下了今年的第一场雪，清晨的街道上积了厚厚一层，孩子们在院子里堆起了雪人，老人站在窗前"
        "望着远处的山，环卫工人从凌晨开始清扫主干道，公交公司临时加开了十几趟早班车。"
    ),
    "…… !!",
    "好的",
)
DOCUMENTS = [
    Document(f"d{n}雪", text, SourcePosition("raw", 3, 10 + 2 * n), 1_000 - n)
    for n, text in enumerate(TEXTS)
]


def _made() -> tuple[list[Fingerprinted], DocumentColumns]:
    fingerprinter = Fingerprinter(profile_named("wide"))
    made = fingerprinter.fingerprint_batch([each.content for each in DOCUMENTS])
    return made, document_columns(DOCUMENTS, made, 4)


def test_columns_hold_what_documents_hold() -> None:
    made, columns = _made()
    assert len(columns) == len(DOCUMENTS)
    for row, (document, each) in enumerate(zip(DOCUMENTS, made, strict=True)):
        assert columns.offsets[row] == document.source.offset
        assert columns.times_ms[row] == document.event_time_ms
        assert columns.document_id(row) == document.id
        assert columns.digest(row) == each.content_digest
        assert REASON_CODES[columns.undecidable[row]] == each.undecidable
        assert columns.fingerprints[row].tobytes() == (each.fingerprint or bytes(32))
        assert columns.sketches[row] == each.sketch
    assert [each.undecidable is None for each in made] == [False, True, False, False]
    assert document_columns([], [], 4).fingerprints.shape == (0, 4)


def test_verdicts_say_what_rows_and_matches_say() -> None:
    _, columns = _made()
    source = SourcePosition("raw", 0, 7)
    near = Match(1, 5, 99, "o", source, 12, 3, exact=False, similarity=0.75)
    same = Match(0, 0, 99, "o", source, 12, None, exact=True, similarity=None)
    assert [verdict_of(columns, row, None) for row in range(4)] == [
        Undecidable(UndecidableReason.EMPTY),
        Unique(),
        Undecidable(UndecidableReason.NO_FEATURES),
        Undecidable(UndecidableReason.TOO_FEW_FEATURES),
    ]
    assert verdict_of(columns, 1, near) == DuplicateOf("o", source, 12, 5, 3, Method.NEAR, 0.75)
    assert verdict_of(columns, 0, same) == DuplicateOf("o", source, 12, 0, None, Method.EXACT)


def test_short_texts_that_pass_have_no_content_in_common() -> None:
    profile = msgspec.structs.replace(profile_named("wide"), short_texts="pass")
    repeat = msgspec.structs.replace(DOCUMENTS[3], source=SourcePosition("raw", 3, 99))
    documents = [*DOCUMENTS, repeat]
    prints = Fingerprinter(profile).fingerprint_batch([each.content for each in documents])
    columns = document_columns(documents, prints, 4)
    assert columns.digest(1) == prints[1].content_digest
    assert len({columns.digest(row) for row in range(5)}) == 5
    assert prints[3].content_digest == prints[4].content_digest
    again = document_columns(documents, prints, 4)
    assert [again.digest(row) for row in range(5)] == [columns.digest(row) for row in range(5)]
    assert columns.undecidable.tolist() == [*_made()[1].undecidable.tolist(), 3]


@given(st.lists(st.binary(max_size=9)), st.data())
def test_bytes_column_is_a_list_of_strings(strings: list[bytes], data: st.DataObject) -> None:
    column = BytesColumn.of(strings)
    rows = data.draw(st.lists(st.sampled_from(range(len(strings))))) if strings else []
    assert [*column] == strings == [column[row] for row in range(len(column))]
    assert [*column.take(rows)] == [strings[row] for row in rows]


made = st.builds(
    Made,
    st.sampled_from([b"", *(each.fingerprint for each in FAR)]),
    content=st.sampled_from([b"", b"x"]),
    time_ms=st.sampled_from([None, 5]),
    sketch=st.binary(max_size=4),
    name=st.text(max_size=3).map(str.encode),
    scope=st.sampled_from(["", "", "tenant", "雪"]),
    is_delete=st.sampled_from([False, False, True]),
)


def made_columns(documents: Sequence[Made], first: int) -> DocumentColumns:
    columns = columns_of(documents, first)
    return replace(columns, ids=BytesColumn.of([each.name for each in documents]))


def rows_of(columns: DocumentColumns) -> list[tuple[object, ...]]:
    are_documents = columns.are_documents.tolist()
    return [
        (
            *(int(columns.offsets[row]), int(columns.times_ms[row]), columns.ids[row]),
            *(columns.digest(row), columns.fingerprints[row].tobytes(), columns.undecidable[row]),
            *(columns.sketches[row], are_documents[row], columns.scope(row)),
        )
        for row in range(len(columns))
    ]


@given(st.lists(st.lists(made, max_size=4), min_size=1, max_size=4), st.data())
def test_joined_columns_are_the_rows_of_their_parts(
    parts: list[list[Made]], data: st.DataObject
) -> None:
    columns = [made_columns(part, 10 * number) for number, part in enumerate(parts)]
    joined = joined_columns(columns)
    rows = [row for each in columns for row in rows_of(each)]
    assert rows_of(joined) == rows
    assert (joined.operations is None) == all(each.operations is None for each in columns)
    assert (joined.scopes is None) == all(each.scopes is None for each in columns)
    documents = [each for part in parts for each in part]
    assert joined.deletes == [row for row, each in enumerate(documents) if each.is_delete]
    assert joined.nbytes == sum(each.nbytes for each in columns)
    first = data.draw(st.integers(0, len(rows)))
    end = data.draw(st.integers(first, len(rows)))
    assert rows_of(joined.part(first, end)) == rows[first:end]
    taken = sorted(data.draw(st.sets(st.sampled_from(range(len(rows)))))) if rows else []
    assert rows_of(joined.take(np.array(taken, dtype=np.intp))) == [rows[row] for row in taken]
