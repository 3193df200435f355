"""A filter of many shards misses no key of any of them, and reports few others."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from simhash_core.index.key_filter import Column, KeyFilter, id_key

KEYS = [id_key(b"%d" % number) for number in range(40)]
keys = st.lists(st.sampled_from(KEYS), max_size=9)


class Shards(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.filter = KeyFilter()
        self.noted: dict[Column, set[bytes]] = {}
        self.complete: set[Column] = set()
        self.closed: list[Column] = []

    @initialize(shards=st.sampled_from([1, 9, 70]))
    def begin(self, shards: int) -> None:
        for _ in range(shards):
            self.open()

    @rule()
    def open(self) -> None:
        self.noted[self.filter.open()] = set()

    @rule(data=st.data(), noted=keys)
    def note(self, data: st.DataObject, noted: list[bytes]) -> None:
        column = data.draw(st.sampled_from([*self.noted, *self.closed]))
        column.note(noted)
        if column in self.noted:
            self.noted[column].update(noted)

    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        """A column that was closed meanwhile completes no other column with its number."""
        column = data.draw(st.sampled_from([*self.noted, *self.closed]))
        column.complete()
        self.complete.add(column)

    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        if self.noted:
            column = data.draw(st.sampled_from([*self.noted]))
            self.filter.close(column)
            self.closed.append(column)
            del self.noted[column]

    @invariant()
    def no_key_is_missed(self) -> None:
        numbers = {column.number for column in self.noted}
        assert len(numbers) == len(self.noted)
        for key in KEYS[:5]:
            found = [*self.filter.columns(key)]
            assert found == sorted(set(found) & numbers)
            for column, noted in self.noted.items():
                assert column.number in found or (key not in noted and column in self.complete)


TestShards = Shards.TestCase
TestShards.settings = settings(stateful_step_count=20, max_examples=settings().max_examples // 2)


def test_a_filter_grows_and_few_other_keys_are_reported() -> None:
    of = KeyFilter()
    columns = [of.open() for _ in range(70)]
    counts = {3: 30_000, 69: 5_000}
    for column in columns:
        count = counts.get(column.number, 10)
        for first in range(0, count, 1000):
            listed = [b"%d-%d" % (column.number, each) for each in range(first, first + 1000)]
            column.note(map(id_key, listed[: count - first]))
        column.complete()
    for number, count in counts.items():
        for each in range(count):
            assert number in of.columns(id_key(b"%d-%d" % (number, each)))
    reported = sum(len([*of.columns(id_key(b"other-%d" % each))]) for each in range(5_000))
    assert 0 < reported < 0.01 * 5_000 * len(counts)
