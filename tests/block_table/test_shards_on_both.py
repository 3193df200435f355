"""A shard decides alike on both tables, whether it was told what comes or not."""

from __future__ import annotations

import random
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from simhash_core import bucket_index
from simhash_core.blocks import BlockScheme
from simhash_core.documents import RawRecord, SourcePosition
from simhash_core.effects import Effect, Emit, Remember
from simhash_core.memory_table import MemoryBlockTable
from simhash_core.placement import Placement
from simhash_core.probes import Message, Packet, Probe, Visit
from simhash_core.shard import Shard, owned_buckets
from simhash_core.verdicts import DuplicateOf, UndecidableReason
from streams.state_codec import StoreIdentity
from tests.block_table.samples import open_store

PLACEMENT = Placement(BlockScheme(64, 8, 12, 8, 2), 1)
IDENTITY = StoreIdentity("index", "tests", 0, 1)


def visits(documents: int, seed: int) -> list[Message]:
    """Documents of which many repeat an earlier one, some bits away; a few have no fingerprint."""
    rng = random.Random(seed)
    made: list[Message] = []
    prints: list[bytes] = []
    for offset in range(documents):
        number = int.from_bytes(rng.choice(prints) if prints and rng.random() < 0.6 else b"")
        number = number or rng.getrandbits(64)
        for _ in range(rng.randrange(16)):
            number ^= 1 << rng.randrange(64)
        fingerprint = number.to_bytes(8)
        prints.append(fingerprint)
        reason = UndecidableReason.NO_FEATURES if rng.random() < 0.1 else None
        made.append(
            Visit(
                Probe(
                    SourcePosition("raw", 0, offset),
                    f"d{offset}",
                    offset,
                    b"" if reason else fingerprint,
                    (offset % 3 if reason else offset).to_bytes(16),
                    reason,
                    RawRecord(None, b"{}", offset),
                )
            )
        )
    return made


def decided(shard: Shard, packets: list[Packet], *, told: bool) -> list[list[Effect]]:
    """What a shard does, each packet committed after it."""
    effects = []
    for number, packet in enumerate(packets):
        if told:
            shard.expect(message for _, message in packet.messages)
        effects.append(shard.receive(packet))
        changes = [each.change for each in effects[-1] if isinstance(each, Remember)]
        shard._table.commit([*changes, shard.progress(number)])
    return effects


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("in_a_packet", [1, 7, 100])
def test_verdicts_are_alike(
    tmp_path: Path, in_a_packet: int, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given documents that repeat others of the same packet and of packets before, in a table whose
    segments are short, then each has the verdict that it has in memory.
    """
    monkeypatch.setattr(bucket_index, "TAIL_DOCUMENTS", 16)
    monkeypatch.setattr(bucket_index, "_FETCHED_LOOKUPS", 5)
    messages = list(enumerate(visits(400, in_a_packet)))
    packets = [
        Packet("raw/raw/0", first - 1, tuple(messages[first : first + in_a_packet]))
        for first in range(0, len(messages), in_a_packet)
    ]
    memory = MemoryBlockTable(partial(owned_buckets, PLACEMENT, 0))
    expected = decided(Shard(0, PLACEMENT, memory), packets, told=False)

    with closing(open_store(tmp_path / "s", identity=IDENTITY, placement=PLACEMENT)) as table:
        found = decided(Shard(0, PLACEMENT, table), packets, told=told)

    assert found == expected
    verdicts = [each.verdict for lot in found for each in lot if isinstance(each, Emit)]
    duplicates = sum(isinstance(verdict, DuplicateOf) for verdict in verdicts)
    assert 100 < duplicates < 300
