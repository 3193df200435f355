"""The progress of a run, as it stands in the state: each name is part of a format."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from streams.offline.dedup_files import KINDS, OutputState, RunProgress, decode_run, encode_run

RUN = RunProgress(
    run=3,
    inputs=("新闻.jsonl", "b.csv"),
    file=1,
    outputs={
        "unique": OutputState(Path("/data/out/u.jsonl"), 7000),
        "duplicates": OutputState(Path("/data/out/d e.jsonl"), 900),
        "dead_letters": OutputState(Path("/data/out/x.jsonl"), 0),
    },
    lines=500,
    digest=(1 << 64) - 1,
    lines_before=70,
    counts={"unique": 450, "dead_letter/not_json": 2},
)
STORED = (
    '{"run":3,"finished":false,"inputs":["新闻.jsonl","b.csv"],"file":1,"lines":500,'
    '"lines_xxh3":18446744073709551615,"lines_before":70,"outputs":{'
    '"unique":{"path":"/data/out/u.jsonl","bytes":7000},'
    '"duplicates":{"path":"/data/out/d%20e.jsonl","bytes":900},'
    '"dead_letters":{"path":"/data/out/x.jsonl","bytes":0}},'
    '"counts":{"unique":450,"dead_letter/not_json":2}}'
).encode()


def test_the_names_are_fixed() -> None:
    """Given this run, then it is written under these names, which a later version must read."""
    assert encode_run(RUN) == STORED
    assert decode_run(STORED) == RUN


def test_a_new_state_has_no_run() -> None:
    """Given nothing stored, then there was no run."""
    assert decode_run(b"") is None


# What the names of files can be: any bytes but / and NUL.
names = st.binary(min_size=1, max_size=20).map(
    lambda raw: raw.replace(b"/", b"").replace(b"\0", b"").decode(errors="surrogateescape")
)
sizes = st.integers(0, (1 << 63) - 1)


@given(
    st.builds(
        RunProgress,
        run=st.integers(1, 1 << 40),
        inputs=st.lists(st.text(min_size=1, max_size=20), min_size=1).map(tuple),
        file=sizes,
        outputs=st.fixed_dictionaries(
            {
                kind: st.builds(OutputState, names.map(lambda n: Path("/d") / n), sizes)
                for kind in KINDS
            }
        ),
        finished=st.booleans(),
        lines=sizes,
        digest=st.integers(0, (1 << 64) - 1),
        lines_before=sizes,
        counts=st.dictionaries(st.text(), sizes, max_size=4),
    )
)
def test_what_is_written_is_read_again(run: RunProgress) -> None:
    """Given any run, its files named in any bytes, then reading gives what was written."""
    assert decode_run(encode_run(run)) == run
