"""``firstseen.Deduplicator`` and ``firstseen.Fingerprinter`` do what their documentation says.

The examples work; one whose library is not installed is skipped with that reason.
"""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from firstseen import (
    Deduplicator,
    DuplicateOf,
    Fingerprinter,
    FirstseenError,
    IndexSettings,
    Method,
    Undecidable,
    Unique,
)
from simhash_core.errors import UsageError
from simhash_core.log.records import Packet
from tests.repository.source_tree import ROOT

DAY_MS = 86_400_000
EXAMPLES = ROOT / "examples"


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Return long texts, of which no two are near."""
    with Deduplicator() as seen:
        found = [text for number in range(40) if seen.add(text := article(number)) == Unique()]
    assert len(found) > 30
    return found


def article(number: int) -> str:
    """Return a text of some 200 characters."""

    def sign(step: int, factor: int) -> str:
        return chr(0x4E00 + (number * factor + step * 83) % 9000)

    sentences = (
        f"第{number * 31 + step}节说的是{sign(step, 577)}{sign(step, 911)}的事情。"
        for step in range(16)
    )
    return "".join(sentences)


def original(verdict: object) -> str | None:
    return verdict.original_id if isinstance(verdict, DuplicateOf) else None


def output_of(*arguments: str) -> str:
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=True
    )
    return done.stdout


@pytest.fixture(scope="module")
def few() -> Iterator[Deduplicator]:
    with Deduplicator("quick") as made:
        yield made


@pytest.fixture
def seen() -> Iterator[Deduplicator]:
    with Deduplicator() as made:
        yield made


def test_first_is_unique_and_a_copy_names_it(seen: Deduplicator, texts: list[str]) -> None:
    assert seen.add(texts[0], id="a") == Unique()
    exact = seen.add(texts[0], id="b")
    assert isinstance(exact, DuplicateOf)
    assert (exact.original_id, exact.method, exact.distance) == ("a", Method.EXACT, 0)
    near = seen.add(texts[0] + "(转发)", id="c")
    assert isinstance(near, DuplicateOf)
    assert (near.original_id, near.method) == ("a", Method.NEAR)
    assert len(seen) == 1


def test_batch_gives_the_verdicts_of_one_by_one(texts: list[str]) -> None:
    stream = [*texts[:20], *texts[5:15], "短", "短", "", *(f"{text}。续" for text in texts[:5])]
    with Deduplicator() as together, Deduplicator() as single:
        verdicts = together.add_batch(stream, times=[0] * len(stream))
        assert verdicts == [single.add(text, time=0) for text in stream]
        with pytest.raises(ValueError, match="2 texts, 1 ids"):
            single.add_batch(["a", "b"], ids=["1"])
    assert [original(each) for each in verdicts[20:30]] == [str(number) for number in range(5, 15)]
    assert isinstance(verdicts[30], Undecidable)
    assert isinstance(verdicts[31], DuplicateOf)


def test_batch_expires_texts_as_one_by_one_does(texts: list[str]) -> None:
    """The third text is too late to find the first, which the second made expire."""
    days = [(0, 0), (1, 100), (0, 0), (1, 101), (2, 300), (1, 100), (2, 301), (2, 300)]
    stream, times = [texts[at] for at, _ in days], [day * DAY_MS for _, day in days]
    index = IndexSettings(window="30d")
    with Deduplicator(index=index) as together, Deduplicator(index=index) as single:
        verdicts = together.add_batch(stream, times=times)
        each = zip(stream, times, strict=True)
        assert verdicts == [single.add(text, time=time) for text, time in each]
        assert len(together) == len(single)
    names = [None, None, None, "1", None, None, "4", "4"]
    assert [original(verdict) for verdict in verdicts] == names


def test_state_outlives_a_killed_process(tmp_path: Path, texts: list[str]) -> None:
    script = (
        "import os, signal, sys\n"
        "from firstseen import Deduplicator\n"
        "seen = Deduplicator(state=sys.argv[1])\n"
        "seen.add_batch(sys.argv[2:])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "seen"), *texts[:3]]
    assert subprocess.run(command, check=False, timeout=120).returncode == -9
    with Deduplicator(state=tmp_path / "seen") as seen:
        assert len(seen) == 3
        assert original(seen.add(texts[1])) == "1"
        assert seen.add(texts[3]) == Unique()
        assert original(seen.add(texts[3])) == "4"
        with pytest.raises(FirstseenError, match="seen"):
            Deduplicator(state=tmp_path / "seen")
    other = IndexSettings(distance=9, short_texts="pass")
    differ = "They differ in distance: there 72, here 9; short-texts: there none, here pass."
    with pytest.raises(FirstseenError, match=differ):
        Deduplicator(state=tmp_path / "seen", index=other)


@pytest.mark.parametrize("does_decide", [False, True])
def test_after_an_interruption_only_a_new_one_goes_on(
    tmp_path: Path, texts: list[str], *, does_decide: bool
) -> None:
    """Its index may have the second text, which is not stored: a verdict could name another."""
    with Deduplicator("classic", state=tmp_path) as seen:
        seen.add(texts[0])
        decide = seen._decider.decide

        def interrupted(offset: int, packet: Packet) -> None:
            if does_decide:
                decide(offset, packet)
            raise KeyboardInterrupt

        with (
            mock.patch.object(seen._decider, "decide", interrupted),
            pytest.raises(KeyboardInterrupt),
        ):
            seen.add(texts[1])
        for text in texts[2], texts[1]:
            with pytest.raises(FirstseenError, match="interrupted"):
                seen.add(text)
    with Deduplicator("classic", state=tmp_path) as seen:
        assert original(seen.add(texts[0])) == "0"
        assert seen.add(texts[1]) == Unique()


def test_forgotten_text_is_unique_again(seen: Deduplicator, texts: list[str]) -> None:
    seen.add(texts[0], id="a")
    assert seen.forget("a")
    assert not seen.forget("a")
    assert seen.add(texts[0], id="b") == Unique()


def test_forgetting_does_not_count_as_a_text(tmp_path: Path, texts: list[str]) -> None:
    with Deduplicator("quick", state=tmp_path) as seen:
        seen.add_batch(texts[:2])
        assert seen.forget("0")
        assert not seen.forget("0")
    with Deduplicator("quick", state=tmp_path) as seen:
        assert seen.add(texts[0]) == Unique()
        assert seen.forget("1")
        repeat = seen.add(texts[0])
        assert isinstance(repeat, DuplicateOf)
        assert (repeat.original_id, repeat.original.offset) == ("2", 2)
        assert seen.add(texts[1]) == Unique()
        assert len(seen) == 2


def test_text_repeats_within_the_window_only(texts: list[str]) -> None:
    with Deduplicator(index=IndexSettings(window="30d")) as seen:
        begin = datetime(2026, 1, 1, tzinfo=UTC)
        start = int(begin.timestamp() * 1000)
        assert seen.add(texts[0], time=begin) == Unique()
        assert isinstance(seen.add(texts[0], time=start + 20 * DAY_MS), DuplicateOf)
        assert seen.add(texts[0], time=start + 60 * DAY_MS) == Unique()
        with pytest.raises(FirstseenError, match="zone"):
            seen.add(texts[1], time=datetime(2026, 1, 1))  # noqa: DTZ001 - which is the mistake


WRONG_CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("add", {"text": None}, "text is None of type NoneType: give a str"),
    ("add", {"text": b"a"}, "text is b'a' of type bytes: give a str"),
    ("add", {"text": "a", "id": 3}, "id is 3 of type int: give a str"),
    ("add", {"text": "a", "id": "\ud800"}, "id has an unpaired surrogate"),
    ("add", {"text": "a", "id": "é" * 2049}, "id has 4098 bytes, the limit is 4096"),
    ("add", {"text": "a", "time": "2026"}, "time is '2026' of type str: give a datetime"),
    ("add", {"text": "a", "time": 1.5}, "time is 1.5 of type float: give a datetime"),
    ("add", {"text": "a", "time": True}, "time is True of type bool: give a datetime"),
    ("add", {"text": "a", "time": 10**30}, "outside the years 1 to 9999: give a datetime"),
    ("add_batch", {"texts": ["a", None]}, r"texts\[1\] is None of type NoneType: give a str"),
    ("add_batch", {"texts": "abc"}, "texts is 'abc' of type str: give a list"),
    ("add_batch", {"texts": None}, "texts is None of type NoneType: give a list"),
    ("add_batch", {"texts": ["a"], "ids": [None]}, r"ids\[0\] is None of type NoneType"),
    ("add_batch", {"texts": ["a"], "ids": "b"}, "ids is 'b' of type str: give a list"),
    ("add_batch", {"texts": ["a"], "times": [None]}, r"times\[0\] is None of type NoneType"),
    ("add_batch", {"texts": ["a"], "times": 5}, "times is 5 of type int: give a list"),
    ("forget", {"id": None}, "id is None of type NoneType: give a str"),
]


@pytest.mark.parametrize(("method", "arguments", "message"), WRONG_CALLS)
def test_values_of_wrong_types_are_named_and_change_nothing(
    few: Deduplicator, method: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        getattr(few, method)(**arguments)
    assert len(few) == 0


@pytest.mark.parametrize("made", [Deduplicator, Fingerprinter])
def test_wrong_index_settings_are_named(made: Callable[..., object]) -> None:
    with pytest.raises(UsageError, match="of type dict: give IndexSettings"):
        made(index={"window": "30d"})
    with pytest.raises(UsageError, match=r"index: .*window"):
        made(index=IndexSettings(window=30))  # type: ignore[arg-type] # the mistake
    with pytest.raises(FirstseenError, match="wide"):
        made("wode")


def test_fingerprint_of_an_edited_copy_is_near(texts: list[str]) -> None:
    maker = Fingerprinter("classic")
    assert maker.bits == 64
    a, copy, other, short = maker.fingerprints([texts[0], texts[0] + "。", texts[1], "短"])
    assert maker.fingerprint(texts[0]) == a
    assert maker.distance(a, copy) <= 3 < maker.distance(a, other)
    assert short.undecidable is not None
    with pytest.raises(ValueError, match="too short"):
        maker.distance(a, short)
    with pytest.raises(UsageError, match="text is None of type NoneType: give a str"):
        maker.fingerprint(None)  # type: ignore[arg-type] # the mistake
    with pytest.raises(UsageError, match=r"texts\[1\] is 3 of type int: give a str"):
        maker.fingerprints(["a", 3])  # type: ignore[list-item] # the mistake


def test_module_is_the_command() -> None:
    assert output_of("-m", "firstseen", "--version").startswith("firstseen ")


def test_short_texts_pass_every_time_with_the_setting(tmp_path: Path, texts: list[str]) -> None:
    index = IndexSettings(short_texts="pass")
    for _ in range(2):
        with Deduplicator(state=tmp_path, index=index) as seen:
            verdicts = seen.add_batch(["好的", "好的", "", texts[0], texts[0]])
            assert [type(verdict) for verdict in verdicts[:3]] == [Undecidable] * 3
            assert isinstance(verdicts[4], DuplicateOf)
    with Deduplicator(index=IndexSettings(short_texts="exact")) as seen:
        assert isinstance(seen.add_batch(["好的", "好的"])[1], DuplicateOf)


def example(name: str) -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(EXAMPLES / f"{name}.py")))


def test_plain_loop_passes_each_line_once(tmp_path: Path) -> None:
    lines = "\n".join([article(1), article(2), article(1)])
    told = ""
    for expected in ([article(1), article(2)], []):
        done = subprocess.run(
            [sys.executable, EXAMPLES / "plain_loop.py"],
            input=lines,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"},
            timeout=120,
            check=True,
        )
        assert done.stdout.splitlines() == expected
        told += done.stderr
    assert "repeats number 0" in told


def test_plain_loop_decides_many_lines_in_one_call(seen: Deduplicator) -> None:
    lines = [article(number % 3) for number in range(1_200)]
    with mock.patch.object(seen, "add_batch", wraps=seen.add_batch) as add_batch:
        assert list(example("plain_loop").first_of_their_kind(lines, seen)) == lines[:3]
    assert add_batch.call_count == 3


def test_arrow_batches_name_the_original_of_a_repeat(seen: Deduplicator) -> None:
    arrow = pytest.importorskip("pyarrow")
    module = example("arrow_batches")
    batches = [
        arrow.RecordBatch.from_pydict({"id": [1, 2], "text": [article(1), article(2)]}),
        arrow.RecordBatch.from_pydict({"id": [3, 4], "text": [article(3), article(2)]}),
    ]
    found = [module.with_originals(batch, seen).column("repeats").to_pylist() for batch in batches]
    assert found == [[None, None], [None, "2"]]


def test_pandas_frames_keep_the_first_rows(seen: Deduplicator) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": [article(1), article(2), article(1)]})
    assert list(example("pandas_frames").without_repeats(frame, seen).index) == [0, 1]


def test_quix_streams_step_lets_no_document_repeat_itself(seen: Deduplicator) -> None:
    pytest.importorskip("quixstreams")
    step = example("quix_streams_step").step
    documents = [("a", article(1)), ("b", article(1)), ("a", article(1))]
    found = [step({"id": name, "text": text}, seen)["repeats"] for name, text in documents]
    assert found == [None, "a", None]


def test_first_example_of_the_page_prints_what_it_says() -> None:
    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    code = page.partition("```python\n")[2].partition("```")[0]
    first, second = output_of("-c", code).splitlines()
    assert first == "Unique()"
    assert second.startswith("DuplicateOf(original_id='a'")
