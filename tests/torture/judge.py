"""Compares the outputs with the sent documents and with the log, by brute force.

It computes all fingerprints again, compares all pairs of unique documents, and decides the log once
more with a single reader that has no index.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice

from simhash_core.documents import Document, RawRecord, SourcePosition, masked
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
from tests.rigs.invariants import Known, Nearness, Repeat, check_grounding, near_pairs
from tests.torture.aftermath import Aftermath
from tests.torture.history import History
from tests.torture.one_reader import SLICES, Answers, OneReader
from tests.torture.plan import Planned

BATCH = 2_000
EXAMPLES = 5


@dataclass
class Findings:
    """How often each invariant is broken, with some examples, and how much was judged."""

    uniques: int = 0
    undecidable: int = 0
    duplicates: int = 0
    dead_letters: int = 0
    lost: int = 0
    left_waiting: int = 0
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
    unacknowledged: int = 0
    raw_other_than_sent: int = 0
    examples: list[str] = field(default_factory=list)

    def note(self, kind: str, violations: Sequence[str]) -> int:
        """Keep some of the violations; return how many there are."""
        self.examples += [f"{kind}: {each}" for each in violations[:EXAMPLES]]
        return len(violations)


def judge(
    settings: Settings,
    sent: Mapping[SourcePosition, Planned],
    outputs: Iterable[ReadRecord],
    history: History,
    left: Aftermath | None = None,
    *,
    complete: bool = True,
) -> Findings:
    """Count the violations in ``outputs``, in the order of each partition.

    ``sent`` has all records of the raw topic, even those that were not acknowledged to the sender.
    ``left`` is the content of the changelog, if it should be judged too. If a run was given up, and
    so is not ``complete``, what could still have come is no violation if it is missing: outputs,
    decisions, and removals of entries.
    """
    return _Judge(settings, sent, outputs, history, complete=complete).findings(left)


class _Judge:
    def __init__(
        self,
        settings: Settings,
        sent: Mapping[SourcePosition, Planned],
        outputs: Iterable[ReadRecord],
        history: History,
        *,
        complete: bool,
    ) -> None:
        self.complete = complete
        profile = settings.index_profile()
        self.settings = settings
        self.profile = profile
        self.near = Nearness(profile.scheme(), profile.verifier(), profile.window)
        self.sent = sent
        self.history = history
        self.found = Findings()
        self.first: dict[SourcePosition, ReceivedOutput] = {}
        self.counts: Counter[SourcePosition] = Counter()
        self.tombstones: dict[SourcePosition, list[str]] = defaultdict(list)
        self._read(outputs)
        self.deletes = {source for source, planned in sent.items() if planned.is_delete}
        self.waiting = sent.keys() - self.deletes - self.counts.keys()
        known_ones = [(s, said) for s, said in self.first.items() if s in sent]
        self.uniques = {s for s, said in known_ones if isinstance(said, UniqueOutput)}
        self.duplicates = {s: said for s, said in known_ones if isinstance(said, DuplicateOutput)}
        logged = [source for source in history.prints if source in sent]
        self.known = known_documents(settings, sent, {*self.uniques, *self.duplicates, *logged})
        self.found.changed += self.found.note(
            "changed",
            [
                f"the fingerprint of {source} in the log is another"
                for source in logged
                if history.prints[source] != self._print_in_log(source)
            ],
        )

    def findings(self, left: Aftermath | None) -> Findings:
        found, sent = self.found, self.sent
        if self.complete:
            found.lost = found.note("lost", [str(source) for source in self.waiting])
        else:
            found.left_waiting = len(self.waiting)
        found.unknown = found.note("unknown", [str(s) for s in self.counts if s not in sent])
        found.note("repeated", [f"{s}, {n} times" for s, n in self.counts.items() if n > 1])
        found.repeated = sum(n - 1 for n in self.counts.values())
        found.uniques, found.duplicates = len(self.uniques), len(self.duplicates)
        found.dead_letters = len(self.first) - found.uniques - found.duplicates - found.unknown
        found.undecidable = sum(not self.known[str(s)].fingerprint for s in self.uniques)
        self._judge_grounding()
        right = self._judge_by_one_reader()
        self._judge_separation(right)
        found.deletes, found.taken_out = len(self.deletes), len(right.removed_at)
        found.expired = len(right.uniques) - len(right.left) - len(right.removed_at)
        self._judge_tombstones(right)
        if left is not None:
            prints = {source: self._print_in_log(source) for source in self.uniques}
            there = {source: each for source, each in prints.items() if str(source) in right.left}
            gone = prints.keys() - there.keys()
            if self.complete:  # else shards may not have applied all removals
                gone = {source for source in gone if str(source) not in right.removed_at}
            wrong = left.other_than(there, gone)
            found.entries_other_than_uniques = found.note("entries", wrong)
        return found

    def _print_in_log(self, source: SourcePosition) -> bytes:
        """Return the fingerprint that log and index must have."""
        known = self.known[str(source)]
        return masked(known.fingerprint or b"", known.scope)

    def _read(self, outputs: Iterable[ReadRecord]) -> None:
        """Read all outputs; note those that differ from what was sent, or are not in raw order."""
        tags = self.settings.mode is Mode.TAG
        as_sent = (UniqueOutput, DuplicateOutput) if tags else UniqueOutput
        last: dict[tuple[str, int, str, int], int] = {}
        changed, turned = [], []
        for record in outputs:
            position = record.position
            said = received_output(record.value, record.headers)
            if said is None:
                changed.append(f"{position} is no output of the filter")
                continue
            source = said.source
            place = position.topic, position.partition, source.topic, source.partition
            if source.offset < last.get(place, -1):
                turned.append(f"{position} is of {source}, after offset {last[place]}")
            last[place] = source.offset
            planned = self.sent.get(source)
            if isinstance(said, TombstoneOutput):
                self.tombstones[source].append(said.reason)
                if planned is None or (record.key, record.value) != (planned.key, None):
                    changed.append(f"{position} is no tombstone of its key")
                continue
            self.first.setdefault(source, said)
            self.counts[source] += 1
            same = planned is None or (record.key, record.value) == (planned.key, planned.value)
            if isinstance(said, as_sent) and not same:
                changed.append(f"{source} is not put out as it was sent")
        self.found.changed = self.found.note("changed", changed)
        self.found.out_of_order = self.found.note("out of order", turned)

    def _judge_grounding(self) -> None:
        """Check that each duplicate names a unique document, near to it, at the stated distance."""
        originals = self.uniques
        if not self.complete:  # the outputs of these could still have come
            verdicts = self.history.verdicts
            originals = originals | {s for s in self.waiting if verdicts.get(s, s) is None}
        names = set(map(str, originals))
        found = []
        for source, said in self.duplicates.items():
            repeat = Repeat(str(source), str(said.original), said.distance)
            try:
                check_grounding(self.known, names, [repeat], self.near)
            except AssertionError as violation:
                found.append(str(violation).splitlines()[-1].strip())
        self.found.ungrounded = self.found.note("ungrounded", found)

    def _judge_by_one_reader(self) -> Answers:
        """Check that verdicts and originals in log and outputs equal those of one reader."""
        history, known = self.history, self.known
        slice_ms = None
        if self.profile.window is not None:
            slice_ms = -(-(self.profile.window + self.profile.lateness) // SLICES)
        reader = OneReader(self.near, slice_ms, replaces=self.profile.same_id == "replace")
        rows = [row for row in history.rows if row.is_delete or str(row.source) in known]
        answers = reader.answers(rows, known)
        originals: dict[SourcePosition, SourcePosition | None] = dict.fromkeys(self.uniques)
        originals |= {source: said.original for source, said in self.duplicates.items()}
        right = answers.originals
        found = list(history.wrong)
        found += [f"{s}, twice in the log" for s, n in Counter(history.documents).items() if n > 1]
        found += [f"{source} is not in the log" for source in originals if str(source) not in right]
        for source in dict.fromkeys(history.documents):
            if str(source) not in known:
                continue
            for where, said in (("in the log", history.verdicts), ("put out", originals)):
                if said is originals and source not in self.first:
                    continue  # it is missing, and counted as missing
                if source not in said:
                    found += [f"{source} has no verdict {where}"] if self.complete else []
                elif (said[source] and str(said[source])) != right[str(source)]:
                    wrong = f"{source} is of {right[str(source)]}, and {where} of {said[source]}"
                    found.append(wrong)
        removed = {str(s): set(map(str, gone)) for s, gone in history.removed.items()}
        undecided = {str(row.source) for rows in history.undecided.values() for row in rows if row}
        if self.complete:
            undecided.clear()
        found += [
            f"{name} takes out {removed.get(name)} in the log, and not {answers.removed.get(name)}"
            for name in (removed.keys() | answers.removed.keys()) - undecided
            if removed.get(name) != answers.removed.get(name)
        ]
        self.found.other_than_one_reader = self.found.note("other than one reader", found)
        return answers

    def _judge_separation(self, right: Answers) -> None:
        """Check that no unique document is near to one that was in the index and shares a bucket.

        Undecidable documents must not have equal content.
        """
        near, known = self.near, {str(s): self.known[str(s)] for s in sorted(self.uniques)}
        prints = {name: each.fingerprint for name, each in known.items() if each.fingerprint}
        names = list(prints)
        found = []
        for i, j, distance in near_pairs(list(prints.values()), near.scheme):
            a, b = known[names[i]], known[names[j]]
            if not (near.confirms(distance, a, b) and right.met(names[i], names[j])):
                continue
            if near.share_a_bucket(a, b):
                found.append(f"{names[i]} and {names[j]}: {distance} bits apart")
            else:
                self.found.near_without_shared_bucket += 1
        by_content: dict[bytes, list[str]] = defaultdict(list)
        for name, each in known.items():
            if not each.fingerprint:
                by_content[each.content_digest].append(name)
        found += [
            f"{one} and {other}: equal content"
            for group in by_content.values()
            for one, other in combinations(group, 2)
            if near.may_be_candidates(known[one], known[other]) and right.met(one, other)
        ]
        self.found.near_uniques = self.found.note("near uniques", found)

    def _judge_tombstones(self, right: Answers) -> None:
        wanted, there = self._wanted_tombstones(right), self.tombstones
        wrong = [
            f"{source}: {there.get(source, [])}, and not {wanted.get(source, [])}"
            for source in there.keys() | wanted.keys()
            if there.get(source, []) != wanted.get(source, [])
            and (self.complete or source in there)
        ]
        self.found.tombstones = sum(map(len, there.values()))
        self.found.wrong_tombstones = self.found.note("tombstones", wrong)

    def _wanted_tombstones(self, right: Answers) -> dict[SourcePosition, list[str]]:
        """Return the tombstones that must be output, by the raw record from which they come."""
        sent = self.sent
        if self.settings.mode is Mode.TAG:
            return {source: ["deleted"] for source, planned in sent.items() if planned.is_delete}
        wanted = {}
        for row in self.history.rows:
            removes = str(row.source) in right.removed
            if row.source not in sent:
                continue
            if row.is_delete:
                if removes or self.profile.window is not None:
                    wanted[row.source] = ["deleted"]
                continue
            may_replace = removes or self.profile.replaces_expired
            keyed = sent[row.source].key is not None
            if may_replace and keyed and right.originals[str(row.source)]:
                wanted[row.source] = ["replaced"]
        return wanted


def known_documents(
    settings: Settings, sent: Mapping[SourcePosition, Planned], sources: Iterable[SourcePosition]
) -> dict[str, Known]:
    """Compute the fingerprints of documents again, from what was sent."""
    fingerprinter = Fingerprinter(settings.index_profile())
    reader = DocumentReader(settings.fields, settings.max_record_bytes)
    known: dict[str, Known] = {}
    left = iter(sources)
    while batch := list(islice(left, BATCH)):
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
