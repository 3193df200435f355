"""The progress of a run, as it stands in the state: every name is part of a format."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from simhash_core.entries import Progress
from streams.dedup_progress import KINDS, OutputState, RunProgress, run_in, with_run

RUN = RunProgress(
    run=3,
    input_name="新闻.jsonl",
    outputs={
        "unique": OutputState(Path("/data/out/u.jsonl"), 7000),
        "duplicates": OutputState(Path("/data/out/d e.jsonl"), 900),
        "dead_letters": OutputState(Path("/data/out/x.jsonl"), 0),
    },
    lines=500,
    digest=(1 << 64) - 1,
    counts={"unique": 450, "dead_letter/not_json": 2},
)
RECEIVED = {
    "dedup/run": 3,
    "dedup/finished": 0,
    "dedup/lines": 500,
    "dedup/lines_xxh3": (1 << 64) - 1,
    "dedup/input/新闻.jsonl": 0,
    "dedup/output/unique//data/out/u.jsonl": 7000,
    "dedup/output/duplicates//data/out/d%20e.jsonl": 900,
    "dedup/output/dead_letters//data/out/x.jsonl": 0,
    "dedup/count/unique": 450,
    "dedup/count/dead_letter/not_json": 2,
}


def test_the_names_are_fixed() -> None:
    """Given this run, then it is written under these names, which a later version must read."""
    assert with_run(Progress(), RUN).received == RECEIVED
    assert run_in(Progress(received=RECEIVED)) == RUN


def test_senders_are_kept_and_an_earlier_run_is_replaced() -> None:
    """Given the progress of a shard with a run in it, when the next one is written, then only the
    senders are left of what was there.
    """
    before = with_run(Progress(received={"raw/f#3/0": 499}, next_order=9), RUN)
    following = RunProgress(run=4, input_name="g", outputs=RUN.outputs)

    after = with_run(before, following)

    assert after.next_order == 9
    assert after.received["raw/f#3/0"] == 499
    assert run_in(after) == following
    assert run_in(Progress(received={"raw/f#3/0": 499})) is None


# What the names of files can be: any bytes but / and NUL.
names = st.binary(min_size=1, max_size=20).map(
    lambda raw: raw.replace(b"/", b"").replace(b"\0", b"").decode(errors="surrogateescape")
)
sizes = st.integers(0, (1 << 63) - 1)


@given(
    st.builds(
        RunProgress,
        run=st.integers(1, 1 << 40),
        input_name=st.text(min_size=1, max_size=20),
        outputs=st.fixed_dictionaries(
            {
                kind: st.builds(OutputState, names.map(lambda n: Path("/d") / n), sizes)
                for kind in KINDS
            }
        ),
        finished=st.booleans(),
        lines=sizes,
        digest=st.integers(0, (1 << 64) - 1),
        counts=st.dictionaries(st.text(), sizes, max_size=4),
    )
)
def test_what_is_written_is_read_again(run: RunProgress) -> None:
    """Given any run, its files named in any bytes, then reading gives what was written, and every
    name can be encoded as UTF-8.
    """
    progress = with_run(Progress(), run)
    assert run_in(progress) == run
    assert all(name.encode() for name in progress.received)
