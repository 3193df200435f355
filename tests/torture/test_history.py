"""The outsider's reading of a log: which packets count, which control records are accepted."""

from __future__ import annotations

from collections.abc import Sequence

from simhash_core.documents import Content, Document, SourcePosition
from simhash_core.log.columns import document_columns
from simhash_core.log.records import Chain, Control, Decision, Packet, Sender, sequence_number
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import profile_named
from simhash_core.verdicts import Match
from tests.torture.history import History

PROFILE = profile_named("classic")
FINGERPRINTER = Fingerprinter(PROFILE)
A, B = Chain("raw", "id", 0), Chain("raw", "id", 1)


def packet(chain: Chain, previous: int, offsets: Sequence[int]) -> Packet:
    contents = [Content(f"text number {chain.partition} {offset}") for offset in offsets]
    documents = [
        Document(str(offset), content.text, SourcePosition(chain.topic, chain.partition, offset), 0)
        for offset, content in zip(offsets, contents, strict=True)
    ]
    columns = document_columns(
        documents, FINGERPRINTER.fingerprint_batch(contents), PROFILE.bits // 64
    )
    return Packet(chain, Sender("w", 0), previous, max(offsets), columns)


def control(previous: int, *decisions: Decision, following: int) -> Control:
    """A control record with these decisions; everything before ``following`` is decided."""
    return Control(previous, "leader", False, list(decisions), [], following)


def read(*records: Packet | Control) -> History:
    history = History()
    for offset, record in enumerate(records):
        history.take(offset, record)
    return history


def match(row: int, original: SourcePosition, sequence: int) -> Match:
    return Match(row, 0, sequence, "id", original, 0, None, exact=True, similarity=None)


def test_only_packets_that_continue_their_chain_count() -> None:
    history = read(
        packet(A, -1, [0, 1]),
        packet(A, -1, [0, 1]),
        packet(B, -1, [4]),
        packet(B, 3, [5]),
        packet(A, 1, [2]),
    )
    assert [(each.partition, each.offset) for each in history.documents] == [
        (0, 0),
        (0, 1),
        (1, 4),
        (0, 2),
    ]
    assert (history.packets, history.packets_skipped) == (3, 2)
    assert not history.wrong


def test_first_control_record_that_continues_the_chain_is_accepted() -> None:
    first = SourcePosition("raw", 0, 0)
    history = read(
        packet(A, -1, [0]),
        packet(A, 0, [1]),
        control(-1, Decision(0, []), following=1),
        control(2, Decision(1, [match(0, first, sequence_number(0, 0))]), following=2),
        control(2, Decision(1, []), following=2),
    )
    assert history.verdicts == {first: None, SourcePosition("raw", 0, 1): first}
    assert history.controls_refused == 1
    assert not history.undecided
    assert not history.wrong


def test_what_no_log_may_say_is_wrong() -> None:
    one = packet(A, -1, [0])
    elsewhere = match(0, SourcePosition("raw", 1, 7), sequence_number(0, 0))
    for records in (
        (one, one, control(-1, Decision(0, []), Decision(1, []), following=2)),
        (one, control(-1, Decision(0, None), following=1)),
        (one, control(-1, Decision(0, []), following=1), control(1, Decision(0, []), following=1)),
        (one, control(-1, following=1)),
        (one, control(-1, Decision(0, [elsewhere]), following=1)),
    ):
        assert len(read(*records).wrong) == 1
