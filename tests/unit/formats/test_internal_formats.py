"""docs/formats.md: the bytes of stores and segment files are written and read as shown there."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import Final

import numpy as np

from simhash_core.document_columns import BytesColumn
from simhash_core.fingerprints.bands import TRIPLES, Bands
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.bucket_columns import completed
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.prints import Rows, band_keys
from simhash_core.index.segment import COLUMNS, build_segment
from simhash_core.text.verification.shingles import SKETCH_BYTES, sketches
from streams.store import row_codec
from streams.store.shard_segments import (
    FiledShard,
    SegmentOwner,
    map_segment,
    read_head,
    write_segment,
)
from tests.unit.core.index.made_prints import bare_prints
from tests.unit.formats.internal_samples import (
    DIGESTS,
    ENTRIES,
    INDEX,
    OWNER,
    PAGE,
    STORED,
    columns,
    example,
)
from tests.unit.store.samples import expected, open_store, read_raw, write_raw

STATE: Final = PAGE.partition("\n## State on disk\n")[2].partition("\n## ")[0]
SEGMENTS: Final = PAGE.partition("### Segment files\n")[2].partition("\n### ")[0]
SCHEME: Final = BlockScheme(64, 4, 3)
BANDS: Final = Bands(12, TRIPLES)
SKETCHED: Final = "今天上午,市交通局发布公告称,跨江大桥的加固工程将于下月初开始,预计持续三个月。"
SEGMENT_OWNER: Final = SegmentOwner(INDEX, "news")


def documented() -> dict[bytes, bytes]:
    pairs = [line.partition("=") for line in example("state on disk")]
    return {bytes.fromhex(key): bytes.fromhex(value) for key, _, value in pairs}


def test_store_writes_the_bytes_of_the_page(tmp_path: Path) -> None:
    with closing(open_store(tmp_path, identity=OWNER)) as store:
        store.commit([ENTRIES], STORED)
    assert read_raw(tmp_path) == documented()


def test_bands_have_the_keys_of_the_page() -> None:
    (sketch,) = sketches([SKETCHED], BANDS)
    head, tail, *keys = [line.partition("#")[0] for line in example("sketch")]
    assert sketch.hex().startswith(head)
    assert sketch[SKETCH_BYTES:].hex() == tail
    made = band_keys(BytesColumn.of([sketch]), BANDS)[0].tolist()
    assert "".join(f"{key:07x}" for key in made) == "".join(keys)


def test_store_reads_the_bytes_of_the_page(tmp_path: Path) -> None:
    write_raw(tmp_path, documented())
    with closing(open_store(tmp_path, identity=OWNER)) as store:
        assert dict(store.all_entries()) == expected([ENTRIES])
        assert len(store) == 2
        assert store.progress() == STORED
        assert store.by_content(DIGESTS[1]) == [17 << 16 | 1]
        ((sequences, prints),) = store.prints()
        assert sequences.tolist() == [17 << 16]
        assert np.array_equal(prints.fingerprints, columns().fingerprints[:1])


def test_table_of_keys_is_complete() -> None:
    rows = re.findall(r"^\| `(.)` \|", STATE, re.MULTILINE)
    tags = {
        value.decode()
        for name, value in vars(row_codec).items()
        if name.endswith(("_TAG", "_KEY")) and isinstance(value, bytes)
    }
    numbered = [each for each in vars(row_codec).values() if isinstance(each, row_codec.NumberKeys)]
    tags |= {each.tag.decode() for each in numbered}
    assert sorted(rows) == sorted(tags)
    assert f"format version {row_codec.FORMAT_VERSION}" in STATE


def documented_segment() -> bytes:
    """Return the bytes of the example: lines of hexadecimal, ``at`` names an offset."""
    found = re.search(r"<!-- example: segment file -->\n```text\n(.*?)```", SEGMENTS, re.DOTALL)
    assert found is not None
    whole = bytearray()
    for line in found[1].splitlines():
        place, _, digits = line.partition(":")
        whole.extend(bytes(int(place) - len(whole)))
        whole += bytes.fromhex(digits.partition("#")[0])
    return bytes(whole)


FILED: Final = [FiledShard(0, [(0, 7)]), FiledShard(2, [(3, 9)])]


def test_segment_file_has_the_bytes_of_the_page(tmp_path: Path) -> None:
    numbers = np.array([7, 9], dtype=np.uint64)
    prints = bare_prints(np.repeat(columns().fingerprints[:1], 2, axis=0))
    prints.fingerprints[1] = ~prints.fingerprints[0]
    rows = Rows(numbers, np.array([0, 1], dtype=np.uint16), prints)
    segment = completed(build_segment(SCHEME, rows))
    path = write_segment(tmp_path, SEGMENT_OWNER, FILED, segment, with_times=False)
    assert path.read_bytes() == documented_segment()
    assert path.stem in SEGMENTS


def test_segment_file_of_the_page_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.segment"
    path.write_bytes(documented_segment())
    head = read_head(path)
    index = DocumentIndex(SCHEME)
    slot = index.open_slot()
    index.claim(map_segment(path, head, SCHEME), 0, slot, head.shards[0].ranges)
    asked = bare_prints(columns().fingerprints[:1] ^ np.uint64(5))
    pairs = index.pairs(asked)
    assert (pairs.distances.tolist(), pairs.sequences.tolist()) == ([2], [7])
    assert (head.owner, head.shards) == (SEGMENT_OWNER, FILED)


def test_table_of_columns_is_complete() -> None:
    rows = re.findall(r"^\| (`[a-z_`, ]+`) \| [ui]", SEGMENTS, re.MULTILINE)
    assert sorted(", ".join(rows).replace("`", "").split(", ")) == sorted(COLUMNS)
