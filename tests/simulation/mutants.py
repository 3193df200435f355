"""Mutants: the protocol broken on purpose, one rule each, to show that the simulator sees it.

Some are edits of the source of ``simhash_core/shard.py``, so that what is broken can be read here
as a line and its replacement; the others turn off a rule of the shell (``protocol``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.abc import InspectLoader
from types import ModuleType

import simhash_core.shard
from tests.simulation.protocol import REAL, ChangelogWriting, Protocol
from tests.simulation.scenario import Delivery, Fault, Scenario


class MutantError(Exception):
    """A mutant that cannot be made, since the code that it edits has changed."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A piece of source that stands in the module once, and what to put in its place."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """One broken rule.

    ``caught_within``: the number of seeds, from 0 on, that must catch it. ``in_scenario``: the
    mutant is a fault that the protocol does not bear, so there is no rule to put back.
    """

    name: str
    edits: tuple[Edit, ...] = ()
    rules: Protocol = REAL
    change_scenario: Callable[[Scenario], Scenario] = lambda scenario: scenario
    caught_within: int = 100
    in_scenario: bool = False

    def protocol(self) -> Protocol:
        """Return the rules with the broken one, and the edited shard."""
        if not self.edits:
            return self.rules
        module = edited_shard_module(self.name, self.edits)
        return replace(self.rules, shard=module.Shard, first_stop=module.first_partition)


class _EditedSource(InspectLoader):
    """Loads a module from a text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def get_source(self, fullname: str) -> str:  # noqa: ARG002 - the one module it has
        """Return the text."""
        return self._text


def edited_shard_module(name: str, edits: tuple[Edit, ...]) -> ModuleType:
    """Return the shard module with edits; raises ``MutantError`` where one does not apply."""
    text = inspect.getsource(simhash_core.shard)
    for edit in edits:
        if text.count(edit.old) != 1:
            raise MutantError(
                f"mutant {name!r}: {edit.old!r} stands {text.count(edit.old)} times in "
                "simhash_core/shard.py, not once. The code has changed: write the mutant anew"
            )
        text = text.replace(edit.old, edit.new)
    module = ModuleType(f"shard of the mutant {name!r}")
    _EditedSource(text).exec_module(module)
    return module


def _faults(*faults: Fault) -> Callable[[Scenario], Scenario]:
    """Let every seed have many faults of a few kinds, those that the mutant does not bear."""
    return lambda scenario: replace(
        scenario,
        faults=frozenset(faults),
        faults_most=30,
        workers=max(2, scenario.workers),
        batch_most=8,
    )


def _without_transactions(*faults: Fault) -> Callable[[Scenario], Scenario]:
    return lambda scenario: replace(_faults(*faults)(scenario), delivery=Delivery.AT_LEAST_ONCE)


def _visiting(order: str) -> tuple[Edit, ...]:
    """Let documents visit in another order: an expression of ``route`` and ``probe``, a list."""
    return (
        Edit(
            "following = next((p for p in route if p > self.partition), None)",
            f"order = {order}\n"
            "        following = next(iter(order[order.index(self.partition) + 1 :]), None)",
        ),
        Edit(
            "return next(iter(placement.by_partition(probe.fingerprint, probe.content_digest)))",
            "route = placement.by_partition(probe.fingerprint, probe.content_digest)\n"
            f"    return {order}[0]",
        ),
    )


MUTANTS = (
    Mutant(
        "half of the documents visit in the reversed order",
        edits=_visiting("sorted(route, reverse=sum(probe.fingerprint) % 2 == 1)"),
    ),
    Mutant(
        "the last partition of the way is left out",
        edits=(Edit("if following is None:", "if following in (None, max(route)):"),),
    ),
    Mutant(
        "no confirm is sent",
        edits=(Edit("self._send_all(visit.passed, Confirm(probe.source), effects)", "pass"),),
    ),
    Mutant(
        "no withdraw is sent",
        edits=(Edit("self._send_all(visit.passed, Withdraw(probe.source), effects)", "pass"),),
    ),
    Mutant(
        "a withdraw confirms",
        edits=(
            Edit(
                "self._settle(source, effects, confirmed=False)",
                "self._settle(source, effects, confirmed=True)",
            ),
        ),
    ),
    Mutant(
        "candidates are not confirmed",
        edits=(Edit("            if agreement is not None:", "            if True:"),),
    ),
    Mutant(
        "only the nearest candidate is confirmed",
        edits=(
            Edit(
                "within(probe.fingerprint, candidates, self._distance):",
                "within(probe.fingerprint, candidates, self._distance)[:1]:",
            ),
        ),
    ),
    Mutant(
        "a document does not wait for one that must be confirmed",
        edits=(
            Edit(
                "PendingEntries(self.buckets_of, self.agreement)",
                "PendingEntries(self.buckets_of, lambda *_: 1.0 if not _[1].sketch else None)",
            ),
        ),
    ),
    Mutant(
        "nothing parks behind a pending entry",
        edits=(Edit("if blocker is not None:", "if blocker is None and blocker is not None:"),),
    ),
    Mutant(
        "of those parked only the first wakes",
        edits=(Edit("while waking:", "if waking:"),),
    ),
    Mutant(
        "staged entries are not visible",
        edits=(Edit("self._table.stage(change)", "pass"),),
    ),
    Mutant(
        "first visits are not checked for their number",
        edits=(
            Edit(
                "if number <= self._received.get(sender, -1):",
                'if sender.startswith("shard/") and number <= self._received.get(sender, -1):',
            ),
        ),
    ),
    Mutant(
        "messages of shards are not checked for their number",
        edits=(
            Edit(
                "if number <= self._received.get(sender, -1):",
                'if sender.startswith("raw/") and number <= self._received.get(sender, -1):',
            ),
        ),
        change_scenario=_without_transactions(Fault.CRASH_SHARD),
    ),
    Mutant(
        "pending entries are not remembered",
        edits=(Edit("effects.append(Remember(PutPending(entry.source, entry)))", "pass"),),
    ),
    Mutant(
        "settled entries are not forgotten",
        edits=(Edit("effects.append(Remember(PutPending(source, None)))", "pass"),),
    ),
    Mutant(
        "parked documents are not remembered",
        edits=(Edit("effects.append(Remember(parked))", "pass"),),
    ),
    Mutant(
        "tickets that have ended are not forgotten",
        edits=(
            Edit("effects.append(Remember(PutParked(ticket.ticket, ticket.behind, None)))", "pass"),
        ),
    ),
    Mutant(
        "numbers of sent messages begin anew at opening",
        edits=(Edit("self._sent = dict(state.progress.sent)", "self._sent = {}"),),
    ),
    Mutant("an old owner is not fenced", rules=replace(REAL, fenced=False)),
    Mutant(
        "the changelog is read before the old owner is fenced",
        rules=replace(REAL, fence_before_reading=False),
    ),
    Mutant("the table is written before the commit", rules=replace(REAL, table_after_commit=False)),
    Mutant(
        "after an abort the same shard goes on",
        rules=replace(REAL, reopened_after_abort=False),
    ),
    Mutant(
        "outputs are sent outside of the transaction",
        rules=replace(REAL, outputs_in_transaction=False),
    ),
    Mutant(
        "packets to other shards are sent outside of the transaction",
        rules=replace(REAL, sends_in_transaction=False),
    ),
    Mutant(
        "progress is stored a transaction late",
        rules=replace(REAL, progress_in_transaction=False),
    ),
    Mutant(
        "a disk older than the removed tombstones is opened",
        rules=replace(REAL, stale_disk_discarded=False),
        change_scenario=_faults(Fault.MOVE_SHARD, Fault.COMPACT),
    ),
    Mutant(
        "raw offsets are committed before the acknowledgements",
        rules=replace(REAL, raw_commit_after_acks=False),
    ),
    Mutant("packets of one sender overtake one another", rules=replace(REAL, links_in_order=False)),
    Mutant(
        "without transactions, a torn changelog is applied as it is",
        rules=replace(REAL, changelog_writing=ChangelogWriting.TORN),
        change_scenario=_without_transactions(Fault.CRASH_SHARD),
    ),
    Mutant(
        "without transactions, a changelog is read up to its last progress",
        rules=replace(REAL, changelog_writing=ChangelogWriting.CLOSED_BY_PROGRESS),
        change_scenario=_without_transactions(Fault.CRASH_SHARD),
    ),
    Mutant(
        "without transactions, an old owner goes on",
        in_scenario=True,
        change_scenario=_without_transactions(Fault.ZOMBIE_SHARD, Fault.CRASH_SHARD),
    ),
)

EQUIVALENTS = (
    Mutant(
        "all documents visit in the reversed order",
        edits=_visiting("sorted(route, reverse=True)"),
    ),
)
"""Changes that must not be caught: they say what the argument does *not* lean on. Any one order of
partitions serves."""
