"""The judge of a torture run counts every kind of wrong output and of wrong log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from simhash_core.documents import Content, Document, RawRecord, SourcePosition
from simhash_core.fingerprints.fingerprint import distance_bits
from simhash_core.log.columns import document_columns
from simhash_core.log.records import (
    Bundle,
    Chain,
    ChainHeads,
    Control,
    Decision,
    Packet,
    Removal,
    Sender,
    sequence_number,
)
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import profile_named
from simhash_core.verdicts import DuplicateOf, Match, Method, Unique, Verdict
from streams.kafka.producers import ProducerRecord
from streams.kafka.topic_follower import ReadRecord
from streams.settings.settings import Settings
from streams.worker.fingerprint import PendingRecord
from streams.worker.outputs import OutputRules, TombstoneReason, document_records, tombstone_record
from tests.torture.aftermath import Aftermath
from tests.torture.history import History, LoggedRow, Undecided
from tests.torture.judge import Findings, judge, known_documents
from tests.torture.plan import Planned

SETTINGS = Settings()
BITS = SETTINGS.index_profile().bits
RULES = OutputRules(
    "an index", "", "", BITS, SETTINGS.topics, include_body=False, application="app"
)
TEXT = (
    "锦川体检中心创办于2018年，最早靠的是护理站，后来才转向口腔义齿。转机出现在上星期六："
    "朗创生物制品研究所帮着开展宫颈癌筛查，抢救成功率稳步提高，投诉少了，锦旗多了。"
)
OTHER = (
    "术后无人照护不是一天形成的，沅冈市社区卫生服务中心承认，一时难以扭转。有人提议扩建产房，"
    "起先反对的不少，村医石兴婷说误诊纠纷早料到了，第二期检查预约正在筹备。"
)
GONE = SourcePosition("raw-documents", 1, 0)
ONE_READER = "other_than_one_reader"
KINDS = {
    *("lost", "repeated", "unknown", "changed"),
    *("near_uniques", "ungrounded", "out_of_order", ONE_READER),
}
FIRST, COPY, STRANGER = (SourcePosition("raw-documents", 0, offset) for offset in range(3))


def planned(text: str) -> Planned:
    return Planned(0, None, f'{{"id": "d", "text": "{text}"}}'.encode())


SENT: dict[SourcePosition, Planned] = {
    FIRST: planned(TEXT),
    COPY: planned(TEXT.replace("稳步", "逐渐")),
    STRANGER: planned(OTHER),
    GONE: Planned(1, b"d", None),
}


def fingerprint_of(source: SourcePosition) -> bytes:
    return known_documents(SETTINGS, SENT, [source])[str(source)].fingerprint or b""


def output(source: SourcePosition, verdict: Verdict) -> ProducerRecord:
    raw = RawRecord(None, SENT[source].value, 0, ())
    decided = PendingRecord(source, raw, None, "d", 0, fingerprint_of(source), verdict)
    (record,) = document_records(decided, RULES)
    return record


def unique(source: SourcePosition) -> ProducerRecord:
    return output(source, Unique())


def duplicate(source: SourcePosition, original: SourcePosition) -> ProducerRecord:
    """Return the output of a document as a duplicate of another, at their real distance."""
    distance = distance_bits(fingerprint_of(source), fingerprint_of(original))
    return output(source, DuplicateOf("d", original, 0, distance, 0, Method.NEAR))


def history(*documents: SourcePosition, copy: SourcePosition | None = FIRST) -> History:
    """Return a log of these documents, in which the copy repeats the first, or ``copy``."""
    found = History(list(documents))
    found.rows = [LoggedRow(source, "d", False, 0, 0) for source in documents]
    found.verdicts = dict.fromkeys(documents)
    found.verdicts[COPY] = copy
    found.prints = {source: fingerprint_of(source) for source in documents}
    return found


LOG = history(FIRST, COPY, STRANGER)


def judged(
    outputs: Iterable[ProducerRecord],
    log: History = LOG,
    left: Aftermath | None = None,
    *,
    complete: bool = True,
) -> Findings:
    read = [
        ReadRecord(SourcePosition("out", 0, n), 0, each.key, each.value, tuple(each.headers))
        for n, each in enumerate(outputs)
    ]
    return judge(SETTINGS, SENT, read, log, left, complete=complete)


def wrong_in(found: Findings) -> set[str]:
    return {kind for kind in KINDS if getattr(found, kind)}


def test_right_outputs_have_no_findings() -> None:
    found = judged([unique(FIRST), duplicate(COPY, FIRST), unique(STRANGER)])
    assert (found.uniques, found.duplicates) == (2, 1)
    assert not found.examples


@pytest.mark.parametrize(
    ("outputs", "wrong"),
    [
        ([unique(FIRST)], {"lost"}),
        ([unique(FIRST), unique(FIRST), duplicate(COPY, FIRST)], {"repeated"}),
        ([duplicate(COPY, FIRST), unique(FIRST)], {"out_of_order"}),
        ([unique(FIRST), unique(COPY)], {"near_uniques", ONE_READER}),
        ([unique(FIRST), duplicate(COPY, STRANGER)], {"ungrounded", ONE_READER}),
        ([duplicate(FIRST, COPY), duplicate(COPY, FIRST)], {"ungrounded", ONE_READER}),
        ([duplicate(FIRST, COPY), unique(COPY)], {ONE_READER}),
        ([unique(FIRST)._replace(value=b"{}"), duplicate(COPY, FIRST)], {"changed"}),
    ],
    ids=["lost", "twice", "turned", "both unique", "not near", "cycle", "other way", "changed"],
)
def test_only_broken_invariants_are_counted(outputs: list[ProducerRecord], wrong: set[str]) -> None:
    assert wrong_in(judged([*outputs, unique(STRANGER)])) == wrong


def test_order_of_the_log_decides_which_is_the_original() -> None:
    log = history(COPY, FIRST, STRANGER)
    log.verdicts |= {COPY: None, FIRST: COPY}
    outputs = [duplicate(FIRST, COPY), unique(COPY), unique(STRANGER)]
    assert wrong_in(judged(outputs, log)) == set()


def test_wrong_log_with_right_outputs_is_counted() -> None:
    right = [unique(FIRST), duplicate(COPY, FIRST), unique(STRANGER)]
    other = history(FIRST, COPY, STRANGER, copy=STRANGER)
    undecided = history(FIRST, COPY, STRANGER)
    del undecided.verdicts[STRANGER]
    for log in (other, undecided, history(FIRST, COPY)):
        assert wrong_in(judged(right, log)) == {ONE_READER}
    spoilt = history(FIRST, COPY, STRANGER)
    spoilt.prints[COPY] = bytes(BITS // 8)
    assert wrong_in(judged(right, spoilt)) == {"changed"}


DELETE = PendingRecord(GONE, RawRecord(b"d", None, 0, ()), document_id="d")
TOMBSTONE = tombstone_record(DELETE, TombstoneReason.DELETED, RULES)


def deleting() -> History:
    """Return a log in which a tombstone removes the first document before its copy comes."""
    found = history(FIRST, COPY, STRANGER, copy=None)
    found.rows.insert(1, LoggedRow(GONE, "d", True, 0, 0))
    found.removed = {GONE: {FIRST}}
    return found


def test_document_and_its_copy_are_unique_with_a_tombstone_between() -> None:
    found = judged([unique(FIRST), TOMBSTONE, unique(COPY), unique(STRANGER)], deleting())
    assert found.examples == []
    assert (found.deletes, found.taken_out, found.tombstones) == (1, 1, 1)


def test_missing_or_doubled_tombstone_is_counted() -> None:
    outputs = [unique(FIRST), unique(COPY), unique(STRANGER)]
    assert judged(outputs, deleting()).wrong_tombstones == 1
    assert judged([*outputs, TOMBSTONE, TOMBSTONE], deleting()).wrong_tombstones


def test_log_that_ignores_a_tombstone_is_counted() -> None:
    log = deleting()
    log.removed = {}
    found = judged([unique(FIRST), TOMBSTONE, unique(COPY), unique(STRANGER)], log)
    assert found.other_than_one_reader == 1


def entries_of(*sources: SourcePosition) -> Aftermath:
    return Aftermath({source: fingerprint_of(source) for source in sources})


def given_up() -> History:
    """Return a log in which the tombstone that removes the first document is not decided."""
    log = deleting()
    log.removed = {}
    log.undecided = {1: [Undecided(GONE, is_delete=True)]}
    return log


@pytest.mark.parametrize(
    ("outputs", "log", "left", "violations"),
    [
        ([duplicate(COPY, FIRST)], LOG, (), {"ungrounded": 1, "lost": 2}),
        ([unique(FIRST)], given_up(), (FIRST,), {ONE_READER: 1, "entries_other_than_uniques": 1}),
    ],
    ids=["the original has no output yet", "the removal is not decided yet"],
)
def test_what_could_still_have_come_is_no_violation_of_a_run_that_was_given_up(
    outputs: list[ProducerRecord],
    log: History,
    left: Sequence[SourcePosition],
    violations: dict[str, int],
) -> None:
    whole = judged(outputs, log, entries_of(*left))
    assert {kind: getattr(whole, kind) for kind in violations} == violations
    found = judged(outputs, log, entries_of(*left), complete=False)
    assert found.examples == []
    assert found.left_waiting == 2


@pytest.mark.parametrize(
    ("outputs", "left", "kind"),
    [
        ([unique(FIRST), duplicate(STRANGER, COPY)], (FIRST,), "ungrounded"),
        ([unique(FIRST), unique(STRANGER)], (FIRST, COPY, STRANGER), "entries_other_than_uniques"),
        ([unique(FIRST), unique(STRANGER)], (FIRST,), "entries_other_than_uniques"),
    ],
    ids=["the original is a duplicate", "an entry of a duplicate", "a unique without an entry"],
)
def test_a_run_that_was_given_up_still_has_violations(
    outputs: list[ProducerRecord], left: Sequence[SourcePosition], kind: str
) -> None:
    assert getattr(judged(outputs, LOG, entries_of(*left), complete=False), kind) == 1


PROFILE = profile_named("classic")
FINGERPRINTER = Fingerprinter(PROFILE)
A, B = Chain("raw", "id", 0), Chain("raw", "id", 1)


def packet(chain: Chain, previous: int, offsets: Sequence[int]) -> Packet:
    contents = [Content(f"text number {chain.partition} {offset}") for offset in offsets]
    documents = [
        Document(str(offset), content.text, SourcePosition(chain.topic, chain.partition, offset), 0)
        for offset, content in zip(offsets, contents, strict=True)
    ]
    prints = FINGERPRINTER.fingerprint_batch(contents)
    columns = document_columns(documents, prints, PROFILE.bits // 64)
    return Packet(chain, Sender("w", 0), previous, max(offsets), columns)


def control(previous: int, *decisions: Decision, following: int) -> Control:
    """Return a control record with these decisions; everything before ``following`` is decided."""
    return Control(previous, "leader", False, list(decisions), ChainHeads(), following)


def read_log(*records: Sequence[Packet] | Control) -> History:
    found = History()
    for offset, record in enumerate(records):
        found.take(offset, record if isinstance(record, Control) else Bundle.of(record))
    return found


def repeats(original: SourcePosition, row: int = 0, sequence: int = 0) -> Match:
    """Return a match of a row in a bundle with the one at ``sequence``, named ``original``."""
    return Match(row, 0, sequence, "id", original, 0, None, True, None)


def test_only_packets_that_continue_their_chain_count() -> None:
    log = read_log(
        [packet(A, -1, [0, 1])],
        [packet(A, -1, [0, 1]), packet(B, -1, [4])],
        [packet(B, 3, [5]), packet(A, 1, [2])],
        [packet(B, 3, [5])],
    )
    places = [(each.partition, each.offset) for each in log.documents]
    assert places == [(0, 0), (0, 1), (1, 4), (0, 2)]
    assert (log.packets, log.packets_skipped) == (3, 3)
    assert not log.wrong


def test_rows_of_a_bundle_are_those_of_its_packets_that_count() -> None:
    first, fifth, second = (SourcePosition("raw", p, o) for p, o in ((0, 0), (1, 5), (0, 1)))
    log = read_log(
        [packet(A, -1, [0])],
        [packet(A, -1, [0]), packet(B, -1, [5])],
        [packet(A, 0, [1])],
        control(
            -1,
            Decision(0, []),
            Decision(1, [repeats(first, row=1)], skipped=[0]),
            Decision(2, [], None, [Removal(0, 1, sequence_number(1, 1))]),
            following=3,
        ),
    )
    assert log.wrong == []
    assert log.verdicts == {first: None, fifth: first, second: None}
    assert log.removed == {second: {fifth}}


def test_first_control_record_that_continues_the_chain_is_accepted() -> None:
    first = SourcePosition("raw", 0, 0)
    log = read_log(
        [packet(A, -1, [0])],
        [packet(A, 0, [1])],
        control(-1, Decision(0, []), following=1),
        control(2, Decision(1, [repeats(first)]), following=2),
        control(2, Decision(1, []), following=2),
    )
    assert log.verdicts == {first: None, SourcePosition("raw", 0, 1): first}
    assert log.controls_refused == 1
    assert not log.undecided
    assert not log.wrong


FIRST_OF_A = SourcePosition("raw", 0, 0)
ONE = [packet(A, -1, [0])]
TWO = [packet(A, -1, [0]), packet(B, -1, [0])]


@pytest.mark.parametrize(
    "records",
    [
        (ONE, ONE, control(-1, Decision(0, []), Decision(1, []), following=2)),
        (ONE, control(-1, Decision(0, [], skipped=[0]), following=1)),
        (ONE, TWO, control(-1, Decision(0, []), Decision(1, [], skipped=[1]), following=2)),
        (ONE, TWO, control(-1, Decision(0, []), Decision(1, [], skipped=[0, 1]), following=2)),
        (
            ONE,
            TWO,
            control(
                -1, Decision(0, []), Decision(1, [repeats(FIRST_OF_A)], skipped=[0]), following=2
            ),
        ),
        (ONE, control(-1, Decision(0, []), following=1), control(1, Decision(0, []), following=1)),
        (ONE, control(-1, following=1)),
        (ONE, control(-1, Decision(0, [repeats(SourcePosition("raw", 1, 7))]), following=1)),
        (ONE, control(-1, Decision(0, [repeats(FIRST_OF_A, row=1)]), following=1)),
        (ONE, control(-1, Decision(0, [], None, [Removal(0, 1, 0)]), following=1)),
        ([*ONE, packet(A, 0, [1])], control(-1, Decision(0, []), following=1)),
    ],
    ids=[
        *("skips none", "skips one", "skips the other", "skips both", "match in skipped"),
        *("twice", "passes over", "not the original", "no such row", "other shard"),
        "two packets of one partition",
    ],
)
def test_what_no_log_may_say_is_wrong(records: tuple[list[Packet] | Control, ...]) -> None:
    assert len(read_log(*records).wrong) == 1
