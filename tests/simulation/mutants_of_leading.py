"""Mutants of chains, of the succession of leaders, and of the decisions of leaders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np

from simhash_core.log import decider, nearest_matches, participant, unique_documents
from simhash_core.log.decider import Decider, ShardReports, _Covered
from simhash_core.log.participant import Participant
from simhash_core.log.records import (
    NO_CONTROL,
    Bundle,
    ChainHeads,
    Heads,
    Packet,
    entry_of,
    index_of,
    log_offset_of,
)
from simhash_core.log.replica import AcceptedControl, Replica
from simhash_core.log.unique_documents import RecentUniques, UniqueDocuments
from simhash_core.verdicts import Match
from tests.simulation.mutant import Rule, Tried
from tests.simulation.replacements import Function, always, by, without, wrapped

LATE_REPORTS: Final = {
    "fault_rate": 0.002,
    "steps": 4_000,
    "workers": 3,
    "late": 0.9,
    "arriving": 0.05,
    "reordered": 0.6,
    "report_limit": 1,
    "decide_limit": 1,
}
"""Scenarios in which shards report on single packets, in any order."""

BEYOND: Final = 1 << 62
"""A sequence number above all others."""


def _take_as_first(heads: Heads, bundle: Bundle) -> list[int]:
    """Let all packets of a bundle count if the first one counts."""
    counts = heads.counts(bundle.segments[0])
    for segment in bundle.segments if counts else ():
        heads.advance(segment)
    return [] if counts else [*range(len(bundle.segments))]


def _from_row_0(packet: Packet) -> Packet:
    return replace(packet, first=0)


CHAINS: Final[dict[str, Rule]] = {
    "all packets of a bundle count if the first does": by(Heads, "take", _take_as_first),
    "documents of packets that do not count are compared": by(
        Bundle, "rows_without", lambda bundle, _skipped: np.ones(len(bundle), dtype=np.bool_)
    ),
    "the rows of each packet of a bundle are numbered from 0": wrapped(
        Bundle, "packet", lambda original, bundle, at: _from_row_0(original(bundle, at))
    ),
    "a packet that overlaps its chain counts": by(
        Heads, "counts", lambda heads, p: p.previous <= heads.last(p.chain) and p.last > p.previous
    ),
    "a packet that leaves a gap counts": by(
        Heads, "counts", lambda heads, p: p.previous >= heads.last(p.chain) and p.last > p.previous
    ),
    "the chain of control records is not checked": always(Replica, "_continues", True),
    "reading begins without the control record in force": wrapped(
        Replica,
        "__init__",
        lambda original, replica, position, _, *horizons: original(
            replica, position, NO_CONTROL, *horizons
        ),
    ),
    "reading begins at the highest position of a shard": by(
        participant,
        "_first_needed",
        lambda progresses: max(progresses, key=lambda each: each.position, default=None),
    ),
}


def _begin_at_once(leader: Decider, replica: Replica) -> None:
    """Lead without appending a first record."""
    if leader._has_begun:
        return
    leader._has_begun = True
    leader._began = leader._last_control = replica.control
    leader._heads = Heads(replica.latest.heads if replica.latest else ChainHeads())
    leader._reports.begin(replica.control, 0, leader._heads.partitions)


def _without_heads(original: Function, leader: Decider, accepted: AcceptedControl) -> None:
    control = msgspec.structs.replace(accepted.control, heads=ChainHeads())
    original(leader, accepted._replace(control=control))


def _go_on(worker: Participant[object], term: str) -> None:
    if worker.decider is not None and worker.decider.term == term:
        worker.decider._in_flight = False


SUCCESSION: Final[dict[str, Rule]] = {
    "a leader decides without a first record": by(Decider, "first_record", _begin_at_once),
    "a new leader begins with heads of its own": wrapped(Decider, "accepted", _without_heads),
    "reports from before the term count": wrapped(
        ShardReports,
        "_add",
        lambda original, reports, report, _began: original(reports, report, NO_CONTROL),
    ),
    "packets are not looked up again for a new leader": without(Participant, "_term_begins"),
    "a leader does not learn that it has a successor": without(Decider, "_succeeded_by"),
    "a leader goes on after an append of unknown end": by(Participant, "control_failed", _go_on),
    "a leader waits for ever after an append of unknown end": without(
        Participant, "control_failed"
    ),
    "a leader whose record was appended twice goes on": without(Decider, "refused"),
    "reports that were acknowledged and lost are not made again": "reports_again",
    "reports that come before the term has begun are dropped": Tried(
        without(ShardReports, "_keep"), {"vanishing": 0.0}
    ),
    "a leader reads reports from the middle of its term on": "reads_reports_from_before",
    "reports that were lost are not sent again": "lost_reports_are_sent_again",
}


def _of_own_packet(original: Function, *arguments: object) -> dict[int, list[tuple[int, int, int]]]:
    pairs = original(*arguments)
    return {
        offset: [each for each in near if log_offset_of(each[2]) == offset]
        for offset, near in pairs.items()
    }


def _entry_of_any(documents: UniqueDocuments, sequence: int) -> object:
    unique = documents._rows.get(log_offset_of(sequence))
    return None if unique is None else entry_of(unique.documents, index_of(sequence))


def _any_decidable(leader: Decider, replica: Replica) -> Iterator[int]:
    return filter(leader._can_decide, replica.undecided.starting_at(leader._next))


DECIDING: Final[dict[str, Rule]] = {
    "a report covers all that comes after it": by(
        _Covered, "end_of", lambda covered, _offset: BEYOND if covered else None
    ),
    "reports that leave a gap cover it": Tried(
        wrapped(
            _Covered,
            "add",
            lambda original, covered, first, end: original(
                covered, min([first, *(each for each, _ in covered._ranges)]), end
            ),
        ),
        {**LATE_REPORTS, "vanishing": 0.3, "standbys": False},
    ),
    "a shard that has not reported is ignored": by(
        Decider,
        "_can_decide",
        lambda leader, offset: (
            not leader.shards or len(leader._reports.missing(offset)) < len(leader.shards)
        ),
    ),
    "recent unique documents are not consulted": by(
        RecentUniques, "near", lambda _recent, _prints, _words: []
    ),
    "recent unique documents of a content are not consulted": by(
        UniqueDocuments, "by_content", lambda _documents, _digest: []
    ),
    "recent unique documents are forgotten once the leader knows them": by(
        Decider, "_known_to_all", lambda _leader, replica, _offset: replica.control
    ),
    "recent unique documents are forgotten before their record is appended": by(
        unique_documents,
        "_is_known",
        lambda known_from, control: known_from is None or known_from <= control,
    ),
    "all recent unique documents are forgotten when some are": Tried(
        by(
            RecentUniques,
            "_drop_forgotten",
            lambda recent, _control: recent._index.drop_before(BEYOND),
        ),
        {"forgotten": 2, "compared": 2, "decide_limit": 1},
    ),
    "recent unique documents take duplicates in": by(
        decider, "unique_rows", lambda columns, _duplicates: columns.are_documents
    ),
    "pairs of packets that are decided together are ignored": by(
        nearest_matches,
        "near_pairs",
        lambda _nearness, documents: {offset: [] for offset in documents.bundles},
    ),
    "packets that are decided together are not compared with each other": wrapped(
        nearest_matches, "near_pairs", _of_own_packet
    ),
    "a duplicate can be an original of a packet that is decided along with its own": by(
        UniqueDocuments, "entry", _entry_of_any
    ),
    "undecidable pairs within a packet are ignored": by(
        nearest_matches,
        "own_repeats",
        lambda _nearness, _view, _columns, _rows, _contents: iter(()),
    ),
    "a duplicate can be an original within its packet": always(
        nearest_matches, "_is_duplicate", False
    ),
    "what is reported is not compared with recent documents": always(
        nearest_matches, "_is_nearer", False
    ),
    "of reports the earliest original is taken, not the nearest": by(
        Match,
        "is_nearer",
        lambda match, other: other is None or match.sequence < other.sequence,
    ),
    "a query is answered without recent documents": without(Decider, "_match_recent"),
    "packets are decided as reports come, not in the order of the log": Tried(
        by(Decider, "_decidable", _any_decidable), LATE_REPORTS
    ),
    "a candidate as near and earlier than the reported one is not taken": Tried(
        by(
            nearest_matches,
            "_is_nearer",
            lambda distance, _sequence, known: distance < known.distance,
        ),
        LATE_REPORTS,
    ),
    "of reports as near the first is taken": by(
        Match,
        "is_nearer",
        lambda match, other: other is None or match.distance < other.distance,
    ),
}
