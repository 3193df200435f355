"""The content of the examples of internal formats in docs/formats.md."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np

from simhash_core.document_columns import DELETE, DOCUMENT, BytesColumn, DocumentColumns
from simhash_core.documents import SourcePosition
from simhash_core.log.records import (
    Bundle,
    Chain,
    ChainHeads,
    Control,
    Decision,
    Found,
    LogClock,
    Packet,
    Progress,
    Query,
    Removal,
    Report,
    Sender,
    item_checksum,
)
from simhash_core.log.shard_stream import NewEntries
from simhash_core.verdicts import Match
from streams.store.changelog_codec import LoggedDeletions
from streams.store.lineage import UNKNOWN
from streams.store.row_codec import StoredProgress, StoreIdentity
from tests.repository.source_tree import ROOT

PAGE: Final = (ROOT / "docs" / "formats.md").read_text("utf-8")
INDEX: Final = "the index identity"
READING: Final = "the rules"
CHAIN: Final = Chain("raw", "TopicId", 2)
OTHER_CHAIN: Final = Chain("raw", "TopicId", 3)
TIME_MS: Final = 1_714_536_000_000
DIGESTS: Final = (bytes(range(16)), b"\xff" * 16)


def columns() -> DocumentColumns:
    """Return two documents: "a" at offset 10, and "bc" at 12, which is undecidable."""
    return DocumentColumns(
        offsets=np.array([10, 12], dtype=np.int64),
        times_ms=np.array([TIME_MS, TIME_MS + 500], dtype=np.int64),
        ids=BytesColumn.of([b"a", b"bc"]),
        digests=np.frombuffer(b"".join(DIGESTS), dtype=np.uint8).reshape(2, 16),
        fingerprints=np.frombuffer(bytes.fromhex("0123456789abcdef") + bytes(8), np.uint64).reshape(
            2, 1
        ),
        undecidable=np.array([0, 3], dtype=np.uint8),
        sketches=BytesColumn.of([b"\x5e\x7c", b""]),
    )


def one_document() -> DocumentColumns:
    """Return the document "e" at offset 40, with the content of "bc"."""
    return replace(
        columns().take(np.array([1])),
        offsets=np.array([40], dtype=np.int64),
        ids=BytesColumn.of([b"e"]),
    )


def with_a_delete() -> DocumentColumns:
    return DocumentColumns(
        offsets=np.array([14, 15], dtype=np.int64),
        times_ms=np.array([TIME_MS, TIME_MS], dtype=np.int64),
        ids=BytesColumn.of([b"d", b"bc"]),
        digests=np.frombuffer(DIGESTS[0] + bytes(16), dtype=np.uint8).reshape(2, 16),
        fingerprints=np.frombuffer(bytes.fromhex("fedcba9876543210") + bytes(8), np.uint64).reshape(
            2, 1
        ),
        undecidable=np.array([0, 1], dtype=np.uint8),
        sketches=BytesColumn.of([b"", b""]),
        operations=np.array([DOCUMENT, DELETE], dtype=np.uint8),
        scopes=BytesColumn.of([b"t", b""]),
    )


PACKET: Final = Packet(CHAIN, Sender("w-1", 7), 9, 12, columns())
OTHER_PACKET: Final = Packet(OTHER_CHAIN, Sender("w-1", 0), 39, 41, one_document())
BUNDLE: Final = Bundle.of([PACKET, OTHER_PACKET])
DELETING: Final = Bundle.of([Packet(CHAIN, Sender("w-1", 8), 12, 15, with_a_delete())])
QUERY: Final = Query("w-1/3", 5, columns().take(np.array([0])))
MATCH: Final = Match(
    row=0,
    distance=2,
    sequence=5 << 16 | 1,
    original_id="z",
    source=SourcePosition("raw", 0, 4),
    event_time_ms=TIME_MS,
    block=1,
    exact=False,
    similarity=None,
)


def heads(last: int, other: int) -> ChainHeads:
    return ChainHeads.of([(CHAIN, last), (OTHER_CHAIN, other)])


RAISED: Final = Control(
    13, "w-1.1", leads=False, decisions=[], heads=heads(9, 39), next=15, version=5
)
STANDBYS: Final = (("w-2", (2,)),)
BEGUN: Final = Control(
    previous=15,
    leader="w-1.1",
    leads=True,
    decisions=[],
    heads=heads(9, 39),
    next=17,
    version=5,
    standbys=STANDBYS,
)
DECIDED: Final = Control(
    previous=18,
    leader="w-1.1",
    leads=False,
    decisions=[Decision(17, [MATCH]), Decision(19, [], skipped=[0, 1])],
    heads=heads(12, 41),
    next=20,
    version=5,
    standbys=STANDBYS,
)
CHECKED: Final = msgspec.structs.replace(DECIDED, checksums=(item_checksum(BUNDLE), 7))
DELETED: Final = Control(
    previous=20,
    leader="w-1.1",
    leads=False,
    decisions=[Decision(21, [], None, [Removal(1, 2, 17 << 16 | 1)])],
    heads=heads(15, 41),
    next=22,
    version=5,
)
REPORT: Final = Report("w-1", [0, 2], 18, 15, 18, [Found(17, [MATCH])], {0: 15, 2: 15}, reads=5)
ENTRIES: Final = NewEntries(17, PACKET, np.array([0, 1]))
PROGRESS: Final = Progress(CHAIN, 13, 20, 18)
CLOCK: Final = LogClock(TIME_MS + 500, [(661474, 17)])
WINDOWED: Final = Progress(CHAIN, 16, 22, 20, CLOCK)
BEFORE: Final = Progress(CHAIN, 10, 17, 15)
WRITER: Final = b"writer-1"
DELETIONS: Final = LoggedDeletions(17 << 16, [17 << 16 | 1])
LINEAGE: Final = UNKNOWN.next("w-0").next("w-1").next("w-1")
STORED: Final = StoredProgress(
    PROGRESS, 57, TIME_MS, INDEX, READING, lineage=UNKNOWN.next("w-0"), leader_epoch=7
)
OWNER: Final = StoreIdentity(INDEX, "news", 2, "changelogTopicId")


def example(name: str) -> list[str]:
    """Return the lines of an example without comments and spaces, with continued lines joined."""
    found = re.search(rf"<!-- example: {name} -->\n```text\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None, f"docs/formats.md has no example {name!r}"
    lines = [line for line in found[1].splitlines() if not line.startswith("#")]
    joined = re.sub(r"\n +", " ", "\n".join(lines))
    return [line.replace(" ", "") for line in joined.splitlines()]
