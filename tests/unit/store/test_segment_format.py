"""The example of a segment file in docs/formats.md is what the code writes and reads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import numpy as np

from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.memtable import Rows
from simhash_core.index.prints import bare_prints
from simhash_core.index.segment import COLUMNS, build_segment
from streams.store.shard_segments import SegmentOwner, map_segment, read_head, write_segment
from tests.unit.formats.internal_samples import PAGE

SECTION: Final = PAGE.partition("### Segment files\n")[2].partition("\n### ")[0]
SCHEME: Final = BlockScheme(64, 4, 3)
OWNER: Final = SegmentOwner("the index identity", "news", 0)
PRINT: Final = bytes.fromhex("0123456789abcdef")


def documented_segment() -> bytes:
    """The bytes of the example: lines of hexadecimal, ``at`` begins at a place."""
    example = re.search(r"<!-- example: segment file -->\n```text\n(.*?)```", SECTION, re.DOTALL)
    assert example is not None
    whole = bytearray()
    for line in example[1].splitlines():
        place, _, digits = line.partition(":")
        whole.extend(bytes(int(place) - len(whole)))
        whole += bytes.fromhex(digits.partition("#")[0])
    return bytes(whole)


def test_segment_file_has_the_bytes_of_the_page(tmp_path: Path) -> None:
    prints = bare_prints(np.frombuffer(PRINT, dtype=np.uint64).reshape(1, 1))
    rows = Rows(np.array([7], dtype=np.uint64), np.zeros(1, dtype=np.uint16), prints)
    path = tmp_path / "a.segment"
    size = write_segment(path, OWNER, 0, 7, build_segment(SCHEME, rows), with_times=False)
    assert path.read_bytes() == documented_segment()
    assert size == len(documented_segment())


def test_segment_file_of_the_page_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.segment"
    path.write_bytes(documented_segment())
    head = read_head(path)
    index = DocumentIndex(SCHEME)
    slot = index.open_slot()
    index.attach(slot, map_segment(path, head, SCHEME, slot), head.first, head.last)
    asked = bare_prints(np.frombuffer(PRINT, dtype=np.uint64).reshape(1, 1) ^ np.uint64(5))
    pairs = index.pairs(asked)
    assert (pairs.distances.tolist(), pairs.sequences.tolist()) == ([2], [7])
    assert head.owner == OWNER


def test_the_table_of_columns_is_complete() -> None:
    rows = re.findall(r"^\| (`[a-z_`, ]+`) \| [ui]", SECTION, re.MULTILINE)
    assert sorted(", ".join(rows).replace("`", "").split(", ")) == sorted(COLUMNS)
