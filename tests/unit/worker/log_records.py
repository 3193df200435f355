"""Records of the log and reports of every kind, as hypothesis makes them."""

from __future__ import annotations

from hypothesis import strategies as st

from simhash_core.documents import SourcePosition
from simhash_core.log.records import Control, Decision, PacketReport, Query, Report
from simhash_core.verdicts import Answer, Match, Neighbour
from tests.unit.store.strategies import chains, columns, names, offsets

numbers = st.integers(0, 2**63 - 1)
places = st.integers(-1, 2**63 - 1)
sources = st.builds(SourcePosition, names, st.integers(0, 2**31 - 1), offsets)
matches = st.builds(
    Match,
    row=st.integers(0, 65_535),
    distance=st.integers(0, 512),
    sequence=st.integers(0, 2**64 - 1),
    original_id=names,
    source=sources,
    event_time_ms=st.integers(-(2**63), 2**63 - 1),
    block=st.none() | st.integers(0, 127),
    exact=st.booleans(),
    similarity=st.none() | st.floats(0, 1),
)
match_lists = st.lists(matches, max_size=3)
answers = st.builds(
    Answer,
    match=st.none() | matches,
    neighbours=st.lists(st.builds(Neighbour, matches, st.booleans()), max_size=2),
    candidates=numbers,
    fullest_bucket=numbers,
)
decisions = st.builds(Decision, numbers, st.none() | match_lists, st.none() | answers)
controls = st.builds(
    Control,
    previous=places,
    leader=names,
    leads=st.booleans(),
    decisions=st.lists(decisions, max_size=3),
    heads=st.dictionaries(chains, places, max_size=4).map(lambda heads: sorted(heads.items())),
    next=numbers,
)
queries = st.builds(Query, names, st.integers(0, 100), columns(least=1, most=1))
reports = st.builds(
    Report,
    worker=names,
    shards=st.lists(st.integers(0, 1000), max_size=3),
    packets=st.lists(
        st.builds(PacketReport, numbers, places, match_lists, st.none() | answers), max_size=3
    ),
    positions=st.dictionaries(st.integers(0, 1000), places, max_size=3),
)
