"""Checks the invariants of docs/architecture.md ("What always holds") at each step and at the end.

The judge reads each record of the log when it is appended, before any worker does, and computes the
verdicts of one reader. It compares these with the decisions of control records and with all
commits.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from itertools import zip_longest
from typing import Final, NamedTuple

from simhash_core import documents
from simhash_core.document_columns import DELETE, DocumentColumns
from simhash_core.documents import Entry
from simhash_core.log import versions
from simhash_core.log.decider import worker_of
from simhash_core.log.records import (
    NO_CONTROL,
    Bundle,
    Chain,
    Control,
    Decision,
    LogRecord,
    Packet,
    Progress,
    Query,
    Removal,
    item_checksum,
)
from simhash_core.log.shard_stream import CHAIN_END, Deleted, NoVerdict, Output, Ready
from simhash_core.verdicts import Answer, Match
from tests.simulation.broker import RawPartition, RawRecord
from tests.simulation.documents import SimulatedDocument, print_of
from tests.simulation.one_reader import OneReader, Original, Truth
from tests.simulation.scenario import IndexScenario


class ViolationError(Exception):
    """An invariant does not hold."""


class _Sent(NamedTuple):
    """A packet that counts, with its offset in the log."""

    offset: int
    last: int


_END_OF_CHAIN: Final = SimulatedDocument("", 0, None, 0, b"", b"", is_delete=True)


def first_chain(chain: Chain) -> Chain:
    """Return the chain that a partition has before its brokers lose records."""
    return chain._replace(topic_id=chain.topic_id.partition("~")[0])


def _is_row_of(document: SimulatedDocument, columns: DocumentColumns, row: int) -> bool:
    if document.document_id != columns.document_id(row):
        return False
    operation = columns.operations is not None and columns.operations[row] == DELETE
    if document.is_delete or operation:
        return document.is_delete == operation
    digest = documents.scoped_digest(document.digest, document.scope)
    return digest == columns.digest(row) and document.time_ms == int(columns.times_ms[row])


class Judge:
    def __init__(self, scenario: IndexScenario) -> None:
        self.one_reader = OneReader(scenario)
        self.outputs: dict[Chain, list[tuple[int, Truth | None]]] = {}
        self.undecided: dict[int, Bundle | Query] = {}
        self.decided_before = 0
        self.accepted: list[int] = []
        self._scenario = scenario
        self._documents: dict[tuple[Chain, int], list[SimulatedDocument | None]] = {}
        self._logged: dict[tuple[Chain, int], SimulatedDocument] = {}
        self._expected: dict[Chain, list[int]] = {}
        self._said: dict[int, list[list[Truth] | None]] = {}
        self._counting: dict[Chain, list[_Sent]] = {}
        self._truths: dict[tuple[Chain, int], Truth] = {}
        self._decided: set[tuple[Chain, int]] = set()
        self._expired: dict[int, int] = {}
        self.expired_before = 0
        self.removed: set[int] = set()
        self._heads: dict[Chain, int] = {}
        self.version = versions.OLDEST  # the version in force
        self._listed: dict[str, dict[str, int]] = {}

    def copy(self) -> Judge:
        """Return a judge that knows the same, and learns other things from now on."""
        shared = [self._scenario, self._documents]
        return copy.deepcopy(self, {id(each): each for each in shared})

    def listed(self, worker: str, members: dict[str, int]) -> None:
        """Note which members a worker saw in the group, and which version each of them reads."""
        self._listed[worker] = members

    def produced(self, raw: Iterable[RawPartition]) -> None:
        for partition in raw:
            self.outputs[partition.chain] = []
            self._expected[partition.chain] = [each.offset for each in partition.records]
            for record in partition.records:
                key = partition.chain, record.offset
                self._documents.setdefault(key, []).append(record.document)

    # ---- the log

    def appended(
        self, offset: int, record: LogRecord, appended_ms: int, version: int = versions.OLDEST
    ) -> None:
        """Check a record of the log and the time at which it was appended."""
        self._judge_written(offset, version)
        if isinstance(record, Control):
            last = self.accepted[-1] if self.accepted else NO_CONTROL
            if record.previous == last and self._has_decided(record):
                self._control(offset, record)
            return
        self.undecided[offset] = record
        if isinstance(record, Query):
            asked = self._scenario.queries[int(record.identifier)]
            self._said[offset] = [[self.one_reader.ask(asked, 0)]]
            return
        documents = []
        for packet in record.packets():
            documents += [self._document(offset, packet, row) for row in range(len(packet))]
        said = self.one_reader.bundle(offset, record, documents, appended_ms)
        self._said[offset] = said
        self._expired[offset] = self.one_reader.expired_before()
        for packet, truths in zip(record.packets(), said, strict=True):
            if truths is None:
                continue
            self._counting.setdefault(packet.chain, []).append(_Sent(offset, packet.last))
            if packet.last >= CHAIN_END:
                continue  # it has no document
            for row, truth in enumerate(truths):
                key = packet.chain, int(packet.columns.offsets[row])
                self._truths[key], self._logged[key] = truth, documents[packet.first + row]

    def _has_decided(self, control: Control) -> bool:
        """Return whether the log has what a leader decides; brokers may have lost it."""
        for decision, checksum in zip_longest(control.decisions, control.checksums):
            item = self.undecided.get(decision.offset)
            is_other = item is not None and checksum not in {None, item_checksum(item)}
            if is_other or decision.offset not in self._said:
                return False
        return True

    def _document(self, offset: int, packet: Packet, row: int) -> SimulatedDocument:
        """Return the document of a row; after a loss, several may have had its raw offset."""
        raw_offset = int(packet.columns.offsets[row])
        if packet.last >= CHAIN_END:
            return _END_OF_CHAIN
        chain = first_chain(packet.chain)
        found = [each for each in self._documents.get((chain, raw_offset), ()) if each is not None]
        if len(found) > 1:
            found = [each for each in found if _is_row_of(each, packet.columns, row)]
        if not found:
            raise ViolationError(f"bundle {offset} has {raw_offset}, which is no document")
        return found[-1]

    def _control(self, offset: int, control: Control) -> None:
        self.accepted.append(offset)
        self._judge_version(offset, control)
        for decision in control.decisions:
            first = next(iter(self.undecided), None)
            if decision.offset != first:
                raise ViolationError(
                    f"control {offset} decides {decision.offset}; the next to decide is {first}"
                )
            item = self.undecided.pop(decision.offset)
            self.expired_before = self._expired.pop(decision.offset, self.expired_before)
            self._decision(decision, item)
        if control.decisions:
            self.decided_before = control.decisions[-1].offset + 1
        first = next(iter(self.undecided), offset)
        if not self.decided_before <= control.next <= first:
            raise ViolationError(f"control {offset}: next is {control.next}, undecided is {first}")
        if dict(control.heads.items()) != self._heads:
            raise ViolationError(f"control {offset}: heads are {control.heads}, not {self._heads}")

    def _judge_written(self, offset: int, version: int) -> None:
        if not self.version - 1 <= version <= self.version:
            raise ViolationError(f"{offset} has version {version}, in force is {self.version}")

    def _judge_version(self, offset: int, control: Control) -> None:
        if control.version < self.version:
            raise ViolationError(f"control {offset}: {control.version} after {self.version}")
        if control.version == self.version:
            return
        leader = versions.member_of(worker_of(control.leader))
        members = self._listed.get(leader, {})
        if min(members.values(), default=0) < control.version:
            raise ViolationError(
                f"control {offset} raises the version to {control.version}, and {leader} has seen "
                f"{members}"
            )
        self.version = control.version

    def _decision(self, decision: Decision, item: Bundle | Query) -> None:
        said = self._said[decision.offset]
        if isinstance(item, Query):
            assert said[0] is not None
            self._answer(decision, said[0][0])
            return
        where = f"bundle {decision.offset}"
        if decision.skipped != [at for at, truths in enumerate(said) if truths is None]:
            raise ViolationError(f"{where}: skips {decision.skipped}, one reader says {said}")
        removals = [
            Removal(truth.sequence % 65536, original.source.partition, original.sequence)
            for truths in said
            for truth in truths or ()
            for original in truth.removed
        ]
        if sorted(decision.removals) != sorted(removals):
            raise ViolationError(f"{where}: {decision.removals}, not {removals}")
        self.removed.update(each.sequence for each in removals)
        matches = {match.row: match for match in decision.matches}
        for packet, truths in zip(item.packets(), said, strict=True):
            if truths is None:
                continue
            self._heads[packet.chain] = packet.last
            for row, truth in enumerate(truths):
                raw_offset = int(packet.columns.offsets[row])
                self._decided.add((packet.chain, raw_offset))
                document = self._logged.get((packet.chain, raw_offset), _END_OF_CHAIN)
                match = matches.pop(packet.first + row, None)
                self._compare(f"{where}, row {packet.first + row}", document, match, truth)
        if matches:
            raise ViolationError(f"{where}: matches of rows that do not count: {matches}")

    def _answer(self, decision: Decision, truth: Truth) -> None:
        query, answer = decision.offset, decision.answer
        if not isinstance(answer, Answer):
            raise ViolationError(f"query {query} has no answer")
        found = answer.match
        if (truth.original and truth.original.sequence) != (found and found.sequence):
            raise ViolationError(f"query {query}: {found}, one reader says {truth}")
        order = [(each.match.distance, each.match.sequence) for each in answer.neighbours]
        if order != sorted(set(order)):
            raise ViolationError(f"query {query}: neighbours are out of order: {order}")

    def _compare(
        self, where: str, document: SimulatedDocument, match: Match | None, truth: Truth
    ) -> None:
        expected = None
        if truth.original is not None:
            original = truth.original
            expected = Match(
                0 if match is None else match.row,
                truth.distance,
                original.sequence,
                original.document.document_id,
                original.source,
                original.document.time_ms,
                self.one_reader.shared_block(document, original.document),
                document.digest == original.document.digest,
                truth.similarity,
            )
        if match != expected:
            raise ViolationError(f"{where}: decided {match}, one reader says {expected}")

    # ---- outputs

    def put_out(self, chain: Chain, ready: Ready[RawRecord]) -> None:
        outputs, expected = self.outputs[chain], self._expected[chain]
        every = {each.sequence for each in self.one_reader.uniques}
        uniques = []
        for output in ready.outputs:
            offset = output.record.offset
            if len(outputs) == len(expected) or offset != expected[len(outputs)]:
                raise ViolationError(f"{chain}: {offset} is put out after {outputs[-1:]}")
            truth = self._output(chain, output)
            outputs.append((offset, truth))
            if truth is not None and truth.sequence in every:
                uniques.append(truth.sequence)
        entries = [sequence for new in ready.entries for sequence in new.sequences.tolist()]
        lasting = [each for each in uniques if each in entries or not self._is_gone(each)]
        if entries != lasting:
            raise ViolationError(f"{chain}: commits entries {entries} with uniques {uniques}")
        if not self.removed.issuperset(ready.removed) or {*entries} & {*ready.removed}:
            raise ViolationError(f"{chain}: removes {ready.removed} with entries {entries}")
        if ready.expired_before > self.expired_before:
            raise ViolationError(f"{chain}: {ready.expired_before}, not {self.expired_before}")
        if len(outputs) < len(expected) and ready.next > expected[len(outputs)]:
            raise ViolationError(f"{chain}: goes on at {ready.next}, {outputs[-1:]} is the last")

    def _is_gone(self, sequence: int) -> bool:
        return sequence in self.removed or sequence < self.expired_before

    def _output(self, chain: Chain, output: Output[RawRecord]) -> Truth | None:
        where = f"{chain.topic}-{chain.partition}@{output.record.offset}"
        document, verdict = output.record.document, output.verdict
        if document is None:
            if verdict is not NoVerdict.NO_DOCUMENT:
                raise ViolationError(f"{where} is no document and is put out as {verdict}")
            return None
        key = chain, output.record.offset
        if isinstance(verdict, NoVerdict) or key not in self._decided:
            raise ViolationError(f"{where} is put out as {verdict} without a verdict in the log")
        truth = self._truths[key]
        if isinstance(verdict, Deleted) != document.is_delete:
            raise ViolationError(f"{where} is put out as {verdict}, which is {document}")
        if isinstance(verdict, Deleted):
            if verdict.has_output != (bool(truth.removed) or self._scenario.window is not None):
                raise ViolationError(f"{where}: {verdict}, which takes out {truth.removed}")
            return truth
        if verdict.replaced != bool(truth.removed):
            raise ViolationError(f"{where}: {verdict}, which takes out {truth.removed}")
        self._compare(where, document, verdict.match, truth)
        return truth

    def progress(self, progress: Progress, before: Progress | None) -> None:
        """Check a committed progress: it must give exactly what a restart has to read."""
        if before is not None and progress.needed < before.needed:
            raise ViolationError(f"{progress} needs more of the log than {before} did")
        if progress.position > self.decided_before:
            raise ViolationError(f"{progress}: only {self.decided_before} is decided")
        for sent in self._counting.get(progress.chain, ()):
            if sent.offset < progress.position and sent.last >= progress.next:
                raise ViolationError(f"{progress}: bundle {sent.offset} is not put out")
        in_force = max((c for c in self.accepted if c < progress.position), default=NO_CONTROL)
        if progress.control != in_force:
            raise ViolationError(f"{progress}: control record {in_force} is in force there")

    def trimmed(self, start: int, progresses: Iterable[Progress | None]) -> None:
        for progress in progresses:
            if progress is not None and progress.needed < start:
                raise ViolationError(f"the log is trimmed to {start}; {progress} needs more")

    # ---- the end

    def has_all_outputs(self, raw: Iterable[RawPartition]) -> bool:
        return all(len(self.outputs[each.chain]) == each.limit for each in raw)

    def at_the_end(self, entries: dict[int, Entry]) -> None:
        put_out = [each for chain in self.outputs.values() for _, each in chain if each is not None]
        every = {each.sequence for each in self.one_reader.uniques}
        uniques = {each.sequence for each in put_out if each.sequence in every}
        for truth in put_out:
            if truth.original is not None and truth.original.sequence not in uniques:
                raise ViolationError(f"{truth}: its original is not on unique")
        known = [each for each in self.one_reader.uniques if each.sequence in uniques]
        self.check_entries(known, entries)

    def check_entries(self, known: list[Original], entries: dict[int, Entry]) -> None:
        """Check that no two unique documents are near, and that exactly these are committed."""
        self._separation(known)
        differing = entries.keys() ^ ({each.sequence for each in known} - self.removed)
        if any(each >= self.expired_before for each in differing):
            raise ViolationError(f"entries and unique documents differ: {sorted(differing)}")
        for each in known:
            document, entry = each.document, entries.get(each.sequence)
            if entry is None:
                continue
            expected = Entry(
                each.source,
                document.document_id,
                document.time_ms,
                print_of(self._scenario.scheme, document),
                documents.scoped_digest(document.digest, document.scope),
                document.sketch,
                document.scope,
            )
            if entry != expected:
                raise ViolationError(f"the entry of {each.sequence} is {entry}, not {expected}")

    def _separation(self, uniques: list[Original]) -> None:
        for at, later in enumerate(uniques):
            for earlier in uniques[:at]:
                if self.one_reader.are_near(earlier, later):
                    raise ViolationError(f"{earlier} and {later} are unique, and near")
