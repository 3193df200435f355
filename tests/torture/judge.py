"""Holds the outputs against what was sent and the log, by brute force: nothing of the filter's
answers is taken for granted. Fingerprints are made again, every pair of uniques is compared, and
the log is read once more by a single reader that knows no index.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.documents import Document, RawRecord, SourcePosition, masked
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.text.fingerprinter import Fingerprinter
from streams.documents.output_records import (
    DuplicateOutput,
    ReceivedOutput,
    TombstoneOutput,
    UniqueOutput,
    received_output,
)
from streams.documents.raw_documents import DocumentReader
from streams.kafka.topic_follower import ReadRecord
from streams.settings.settings import Mode, Settings
from tests.rigs.invariants import Known, Nearness, Repeat, check_grounding
from tests.torture.aftermath import Aftermath
from tests.torture.history import History
from tests.torture.one_reader import SLICES, Answers, OneReader
from tests.torture.plan import Planned

BATCH = 2_000
ROWS_A_STEP = 64
EXAMPLES = 5


@dataclass
class Findings:
    """How often each invariant is broken, with a few examples; and what there was to judge."""

    uniques: int = 0
    undecidable: int = 0
    duplicates: int = 0
    dead_letters: int = 0
    lost: int = 0
    repeated: int = 0
    unknown: int = 0
    changed: int = 0
    near_uniques: int = 0
    ungrounded: int = 0
    out_of_order: int = 0
    other_than_one_reader: int = 0
    deletes: int = 0
    taken_out: int = 0
    expired: int = 0
    tombstones: int = 0
    wrong_tombstones: int = 0
    entries_other_than_uniques: int = 0
    near_without_shared_bucket: int = 0
    hung_transactions: int = 0
    examples: list[str] = field(default_factory=list)

    def note(self, kind: str, violations: Sequence[str]) -> int:
        """Keep a few of the violations, return how many they are."""
        self.examples += [f"{kind}: {each}" for each in violations[:EXAMPLES]]
        return len(violations)


def judge(
    settings: Settings,
    sent: Mapping[SourcePosition, Planned],
    outputs: Iterable[ReadRecord],
    history: History,
    left: Aftermath | None = None,
) -> Findings:
    """Count what is wrong with ``outputs``, all that stands on the three output topics.

    ``outputs``: those of one partition in its order. ``history``: what the log has said. ``left``:
    what the changelog has, if that is to be judged too.
    """
    findings = Findings()
    tags = settings.mode is Mode.TAG
    first, count, tombstones, changed, turned = _read(outputs, sent, tags=tags)
    deletes = {source for source, planned in sent.items() if planned.is_delete}
    findings.lost = findings.note("lost", [str(s) for s in sent.keys() - deletes - count.keys()])
    findings.unknown = findings.note("unknown", [str(s) for s in count if s not in sent])
    repeats = [f"{source}, {n} times" for source, n in count.items() if n > 1]
    findings.note("repeated", repeats)
    findings.repeated = sum(n - 1 for n in count.values())
    findings.out_of_order = findings.note("out of order", turned)
    uniques = {s for s, said in first.items() if isinstance(said, UniqueOutput) and s in sent}
    duplicates = {
        s: said for s, said in first.items() if isinstance(said, DuplicateOutput) and s in sent
    }
    findings.uniques, findings.duplicates = len(uniques), len(duplicates)
    findings.dead_letters = len(first) - len(uniques) - len(duplicates) - findings.unknown
    logged = [source for source in history.prints if source in sent]
    known = known_documents(settings, sent, {*uniques, *duplicates, *logged})
    changed += [
        f"the fingerprint of {source} in the log is another"
        for source in logged
        if history.prints[source] != _in_the_log(known[str(source)])
    ]
    findings.changed = findings.note("changed", changed)
    findings.undecidable = sum(not known[str(source)].fingerprint for source in uniques)
    _grounding(findings, known, uniques, duplicates, settings)
    originals: dict[SourcePosition, SourcePosition | None] = dict.fromkeys(uniques)
    originals |= {source: said.original for source, said in duplicates.items()}
    right = _one_reader(findings, history, known, originals, set(first), settings)
    _separation(findings, {str(s): known[str(s)] for s in sorted(uniques)}, right, settings)
    findings.deletes, findings.taken_out = len(deletes), len(right.removed_at)
    findings.expired = len(right.uniques) - len(right.left) - len(right.removed_at)
    findings.tombstones = sum(map(len, tombstones.values()))
    wanted = _tombstones(sent, history, right, settings)
    wrong = [
        f"{source}: {tombstones.get(source, [])}, and not {wanted.get(source, [])}"
        for source in tombstones.keys() | wanted.keys()
        if tombstones.get(source, []) != wanted.get(source, [])
    ]
    findings.wrong_tombstones = findings.note("tombstones", wrong)
    if left is not None:
        prints = {source: _in_the_log(known[str(source)]) for source in uniques}
        there = {source: each for source, each in prints.items() if str(source) in right.left}
        expired = {s for s in prints if s not in there and str(s) not in right.removed_at}
        wrong = left.other_than(there, expired)
        findings.entries_other_than_uniques = findings.note("entries", wrong)
    return findings


def _in_the_log(known: Known) -> bytes:
    """The fingerprint as it stands in log and index."""
    return masked(known.fingerprint or b"", known.scope)


def _tombstones(
    sent: Mapping[SourcePosition, Planned], history: History, right: Answers, settings: Settings
) -> dict[SourcePosition, list[str]]:
    """The tombstones that must be put out, by the raw record that they come of."""
    if settings.mode is Mode.TAG:
        return {source: ["deleted"] for source, planned in sent.items() if planned.is_delete}
    wanted = {}
    has_window = settings.index_profile().window is not None
    for row in history.rows:
        removes = str(row.source) in right.removed
        if row.source not in sent:
            continue
        if row.is_delete:
            if removes or has_window:
                wanted[row.source] = ["deleted"]
        elif removes and right.originals[str(row.source)] and sent[row.source].key is not None:
            wanted[row.source] = ["replaced"]
    return wanted


class _Outputs(NamedTuple):
    """What stands on the output topics: the first of each raw record, and how many there are."""

    first: dict[SourcePosition, ReceivedOutput]
    counts: Counter[SourcePosition]
    tombstones: dict[SourcePosition, list[str]]
    changed: list[str]
    turned: list[str]


def _read(
    outputs: Iterable[ReadRecord], sent: Mapping[SourcePosition, Planned], *, tags: bool
) -> _Outputs:
    """Read all outputs; note what is not as it was sent, and what is not in raw order.

    ``tags``: duplicates are put out as they were sent, too.
    """
    as_sent = (UniqueOutput, DuplicateOutput) if tags else UniqueOutput
    order = _RawOrder()
    found = _Outputs({}, Counter(), defaultdict(list), [], order.turned)
    for record in outputs:
        said = received_output(record.value, record.headers)
        if said is None:
            found.changed.append(f"{record.position} is no output of the filter")
            continue
        order.follow(record.position, said.source)
        planned = sent.get(said.source)
        if isinstance(said, TombstoneOutput):
            found.tombstones[said.source].append(said.reason)
            if planned is None or (record.key, record.value) != (planned.key, None):
                found.changed.append(f"{record.position} is no tombstone of its key")
            continue
        found.first.setdefault(said.source, said)
        found.counts[said.source] += 1
        if not isinstance(said, as_sent) or planned is None:
            continue
        if (record.key, record.value) != (planned.key, planned.value):
            found.changed.append(f"{said.source} is not put out as it was sent")
    return found


class _RawOrder:
    """Whether what comes from one raw partition is in raw order in each output partition."""

    def __init__(self) -> None:
        self.turned: list[str] = []
        self._last: dict[tuple[str, int, str, int], int] = {}

    def follow(self, position: SourcePosition, source: SourcePosition) -> None:
        place = position.topic, position.partition, source.topic, source.partition
        before = self._last.get(place, -1)
        if source.offset < before:
            self.turned.append(f"{position} is of {source}, after offset {before}")
        self._last[place] = source.offset


def _one_reader(
    findings: Findings,
    history: History,
    known: Mapping[str, Known],
    originals: Mapping[SourcePosition, SourcePosition | None],
    put_out: Container[SourcePosition],
    settings: Settings,
) -> Answers:
    """Every verdict, and the original that it names, is that of one reader of the log: in the log
    and on the outputs. ``put_out``: sources that have any output.
    """
    profile = settings.index_profile()
    documents = [source for source in history.documents if str(source) in known]
    slice_ms = None
    if profile.window is not None:
        slice_ms = -(-(profile.window + profile.lateness) // SLICES)
    reader = OneReader(_nearness(settings), slice_ms, replaces=profile.same_id == "replace")
    answers = reader.answers(
        [row for row in history.rows if row.is_delete or str(row.source) in known], known
    )
    right = answers.originals
    found = list(history.wrong)
    found += [f"{s}, twice in the log" for s, n in Counter(history.documents).items() if n > 1]
    found += [f"{source} is not in the log" for source in originals if str(source) not in right]
    for source in dict.fromkeys(documents):
        original = right[str(source)]
        for where, said in (("in the log", history.verdicts), ("put out", originals)):
            if said is originals and source not in put_out:
                continue  # it is lost, and counted as such
            if source not in said:
                found.append(f"{source} has no verdict {where}")
            elif _name(said[source]) != original:
                found.append(f"{source} is of {original}, and {where} of {said[source]}")
    removed = {str(s): set(map(str, gone)) for s, gone in history.removed.items()}
    found += [
        f"{name} takes out {removed.get(name)} in the log, and not {answers.removed.get(name)}"
        for name in removed.keys() | answers.removed.keys()
        if removed.get(name) != answers.removed.get(name)
    ]
    findings.other_than_one_reader = findings.note("other than one reader", found)
    return answers


def _nearness(settings: Settings) -> Nearness:
    profile = settings.index_profile()
    return Nearness(profile.scheme(), profile.verifier(), profile.window)


def _name(source: SourcePosition | None) -> str | None:
    return None if source is None else str(source)


def known_documents(
    settings: Settings, sent: Mapping[SourcePosition, Planned], sources: Iterable[SourcePosition]
) -> dict[str, Known]:
    """Fingerprint documents again, from what was sent."""
    fingerprinter = Fingerprinter(settings.index_profile())
    reader = DocumentReader(settings.fields, settings.max_record_bytes)
    known: dict[str, Known] = {}
    for batch in _batches(sources):
        documents = []
        for source in batch:
            planned = sent[source]
            document = reader.read(source, RawRecord(planned.key, planned.value, 0, ()))
            assert isinstance(document, Document), f"{source} is on no topic of documents"
            documents.append(document)
        made = fingerprinter.fingerprint_batch([document.content for document in documents])
        for document, each in zip(documents, made, strict=True):
            known[str(document.source)] = Known.of(
                document.id, each, document.event_time_ms, document.scope
            )
    return known


def _separation(
    findings: Findings, uniques: Mapping[str, Known], right: Answers, settings: Settings
) -> None:
    """No two uniques are near and share a bucket, no two undecidable ones have equal content, of
    which the earlier was in the index when the later came.
    """
    profile = settings.index_profile()
    near, scheme = _nearness(settings), profile.scheme()
    prints = {source: known.fingerprint for source, known in uniques.items() if known.fingerprint}
    sources = list(prints)
    found = []
    for i, j, distance in near_pairs(list(prints.values()), scheme):
        if not near.confirms(distance, uniques[sources[i]], uniques[sources[j]]):
            continue
        if not right.met(sources[i], sources[j]):
            continue
        if near.share_a_bucket(uniques[sources[i]], uniques[sources[j]]):
            found.append(f"{sources[i]} and {sources[j]}: {distance} bits apart")
        else:
            findings.near_without_shared_bucket += 1
    by_content: dict[bytes, list[str]] = defaultdict(list)
    for source, known in uniques.items():
        if not known.fingerprint:
            by_content[known.content_digest].append(source)
    found += [
        f"{one} and {other}: equal content"
        for group in by_content.values()
        for one, other in combinations(group, 2)
        if near.may_meet(uniques[one], uniques[other]) and right.met(one, other)
    ]
    findings.near_uniques = findings.note("near uniques", found)


def near_pairs(prints: Sequence[bytes], scheme: BlockScheme) -> Iterator[tuple[int, int, int]]:
    """Compare all pairs; give those within the distance, as two indices and the distance."""
    rows = np.frombuffer(b"".join(prints), np.uint64).reshape(len(prints), scheme.bits // 64)
    columns = np.ascontiguousarray(rows.T)
    for start in range(0, len(prints), ROWS_A_STEP):
        part = rows[start : start + ROWS_A_STEP]
        distances: NDArray[np.uint16] = np.zeros((len(part), len(prints) - start), np.uint16)
        for word, column in enumerate(columns):
            distances += np.bitwise_count(part[:, word, None] ^ column[start:])
        for row, other in zip(*np.nonzero(distances <= scheme.distance), strict=True):
            if row < other:  # each pair once, and none with itself
                yield start + int(row), start + int(other), int(distances[row, other])


def _grounding(
    findings: Findings,
    known: Mapping[str, Known],
    uniques: Iterable[SourcePosition],
    duplicates: Mapping[SourcePosition, DuplicateOutput],
    settings: Settings,
) -> None:
    """Every duplicate names a unique, near to it, at the distance that it says."""
    near = _nearness(settings)
    names = set(map(str, uniques))
    found = []
    for source, said in duplicates.items():
        repeat = Repeat(str(source), str(said.original), said.distance)
        try:
            check_grounding(known, names, [repeat], near)
        except AssertionError as violation:
            found.append(str(violation).splitlines()[-1].strip())
    findings.ungrounded = findings.note("ungrounded", found)


def _batches(sources: Iterable[SourcePosition]) -> Iterator[list[SourcePosition]]:
    left = iter(sources)
    while batch := list(islice(left, BATCH)):
        yield batch
