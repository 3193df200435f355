"""docs/formats.md, "Probes" and "Changelog": their bytes are those that are sent, and are read."""

from __future__ import annotations

import re

import pytest

from simhash_core.documents import RawRecord, SourcePosition
from simhash_core.entries import Change, Entry, Progress, PutEntry, PutParked, PutPending
from simhash_core.errors import IndexMismatchError
from simhash_core.probes import (
    Confirm,
    Packet,
    Probe,
    Visit,
    Withdraw,
    raw_sender,
    shard_sender,
)
from streams.changelog_codec import ChangelogFormatError, decode_change, encode_change
from streams.packet_codec import PacketCodec, PacketFormatError
from tests.architecture.source_tree import ROOT

PAGE = (ROOT / "docs" / "formats.md").read_text("utf-8")
CODEC = PacketCodec("the index identity", 4)
SOURCE = SourcePosition("raw", 2, 10)
TIME_MS = 1_714_978_827_264
PRINT, DIGEST = b"\x81" * 8, bytes(range(16))
PROBE = Probe(
    SOURCE,
    "d",
    TIME_MS,
    PRINT,
    DIGEST,
    None,
    RawRecord(None, b"{}", TIME_MS, (("trace", b"7f"),)),
)
PACKETS = (
    Packet(raw_sender("raw", 2), 9, ((10, Visit(PROBE, (0,))),)),
    Packet(
        shard_sender(1), -1, ((0, Confirm(SOURCE)), (1, Withdraw(SourcePosition("raw", 2, 11))))
    ),
)
ENTRY = Entry(SOURCE, "d", TIME_MS, PRINT, DIGEST)
CHANGES: tuple[Change, ...] = (
    PutEntry(7, ENTRY),
    PutPending(SOURCE, ENTRY),
    PutPending(SOURCE, None),
    PutParked(3, SourcePosition("", 0, 0), None),
    Progress(42, {"raw/raw/2": 10}, {1: 2}, 8, 4, index="the index identity"),
)


def _example(name: str) -> list[str]:
    """Return the records of an example, comments and spaces taken out."""
    found = re.search(rf"<!-- example: {name} -->\n```text\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None, f"docs/formats.md has no example {name!r}"
    lines = [line for line in found[1].splitlines() if not line.startswith("#")]
    records = "\n".join(lines).replace("\n   ", " ")
    return [record.replace(" ", "") for record in records.splitlines()]


def test_the_example_of_probes_is_what_is_sent_and_read() -> None:
    """Each packet of the page is encoded to its bytes, and decoded from them."""
    values = [CODEC.encode(packet) for packet in PACKETS]
    assert [value.hex() for value in values] == _example("probes")
    assert tuple(CODEC.decode(value, "here") for value in values) == PACKETS


def test_the_example_of_the_changelog_is_what_is_written_and_read() -> None:
    """Each change of the page is encoded to its key and value, and decoded from them."""
    records = [encode_change(change) for change in CHANGES]
    written = [f"{key.hex()}={value.hex() if value else 'null'}" for key, value in records]
    assert written == _example("changelog")
    assert tuple(decode_change(key, value, "here") for key, value in records) == CHANGES


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "no value"),
        (b"", "no value"),
        (b"\x01" + CODEC.encode(PACKETS[0])[1:], "format version 1, this program reads 2"),
        (CODEC.encode(PACKETS[0])[:-1], "damaged"),
        (b"\x02\xff\xff", "damaged"),
        (PacketCodec("the index identity", 5).encode(PACKETS[0]), "5 partitions, the topic has 4"),
    ],
)
def test_probes_that_cannot_be_read_are_named(value: bytes | None, says: str) -> None:
    """A record of another version, another number of partitions, or damaged, stops the reader."""
    with pytest.raises(PacketFormatError, match=says) as raised:
        CODEC.decode(value, "probes/0@7")
    assert "probes/0@7" in str(raised.value)


def test_probes_of_another_index_are_refused_with_both_identities() -> None:
    """An agent with other settings must not feed this index."""
    with pytest.raises(IndexMismatchError, match=r"there: another\n.*here:  the index identity"):
        CODEC.decode(PacketCodec("another", 4).encode(PACKETS[0]), "probes/0@7")


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        (None, b"\x02", "no key"),
        (b"e" + bytes(8), b"\x01", "format version 01, this program reads 2"),
        (b"e" + bytes(8), b"", "format version none"),
        (b"e" + bytes(8), b"\x02\xff", "damaged"),
        (b"e" + bytes(7), b"\x02", "damaged"),
        (b"e" + bytes(8), None, "unknown key 650000"),
        (b"w" + bytes(7), None, "damaged"),
        (b"p\xff", None, "damaged"),
        (b"?", None, "unknown key 3f"),
    ],
)
def test_changelog_records_that_cannot_be_read_are_named(
    key: bytes | None, value: bytes | None, says: str
) -> None:
    """Recovery must not go on past a record that it does not understand."""
    with pytest.raises(ChangelogFormatError, match=says) as raised:
        decode_change(key, value, "changelog/0@7")
    assert "changelog/0@7" in str(raised.value)
