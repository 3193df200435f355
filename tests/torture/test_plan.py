"""The documents of a torture run: the same for each run of a seed, with many hard cases."""

from __future__ import annotations

import json
import random
from collections import Counter

from simhash_core.fingerprints.fingerprint import distance_bits
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import profile_named
from tests.torture.faults import ALONE_SECONDS, Fault, schedule
from tests.torture.plan import AT_ONCE, Plan, Planned

DOCUMENTS = 2_000
PARTITIONS = 4


def texts(plan: list[Planned]) -> list[tuple[int, int, str]]:
    """Return position, partition and text of each readable record."""
    found = []
    for position, (partition, _, value) in enumerate(plan):
        try:
            fields = json.loads(value or b"")
            found.append((position, partition, str(fields["text"])))
        except (ValueError, TypeError, KeyError):
            continue
    return found


def test_near_duplicates_come_together_in_different_partitions() -> None:
    """Some copies are slightly beyond the distance, so that the shards have something to decide."""
    profile = profile_named("wide")
    plan = texts(list(Plan(7, DOCUMENTS, PARTITIONS)))
    prints = Fingerprinter(profile).fingerprint_batch([text for _, _, text in plan])
    decided = [(p, part, made.fingerprint) for (p, part, _), made in zip(plan, prints, strict=True)]
    near = beyond = 0
    for index, (position, partition, fingerprint) in enumerate(decided):
        for before, other_partition, other in decided[max(0, index - 8) : index]:
            if not fingerprint or not other or position - before > AT_ONCE:
                continue
            distance = distance_bits(fingerprint, other)
            near += distance <= profile.distance and partition != other_partition
            beyond += profile.distance < distance <= 2 * profile.distance - 16
    assert near > 100
    assert beyond > 50


def test_every_kind_of_fault_comes_before_any_comes_twice() -> None:
    kinds = list(Fault)[:14]
    once = schedule(random.Random(1), len(kinds), 60.0, kinds)
    assert {event.fault for event in once} == set(kinds)
    counts = Counter(event.fault for event in schedule(random.Random(1), 70, 600.0, kinds))
    assert set(counts.values()) == {70 // len(kinds)}


def test_first_wait_for_a_trimmed_log_is_alone_in_a_run_of_ten_minutes() -> None:
    first, second = schedule(random.Random(1), 70, 600.0, list(Fault))[:2]
    assert first.fault is Fault.TRIMMED_WHILE_DOWN
    assert second.at - first.at >= ALONE_SECONDS
    times = [event.at for event in schedule(random.Random(1), 70, 60.0, list(Fault))]
    assert times[1] - times[0] < ALONE_SECONDS
