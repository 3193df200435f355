"""Each benchmark runs to its end at a tiny size, and its JSON has the values of its tables."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as all_benchmarks
from benchmarks import fingerprints, loop_lag, paragraphs, recovery, worker
from benchmarks.command import MeasurementError
from benchmarks.files import Judge
from benchmarks.index import real_texts
from benchmarks.index import shards as index_shards
from benchmarks.index.__main__ import MILLION, Measured, goals_of
from benchmarks.index.__main__ import main as index_main
from benchmarks.quality.peer import ALIKE, REPEATS
from benchmarks.random_documents import CHAIN, PACKET, changelog_of
from benchmarks.report import Spread, show, tables_of
from benchmarks.texts import generated_documents
from simhash_core.log.records import log_offset_of
from simhash_core.text.profiles import PROFILES
from streams.settings.loader import load_settings
from streams.store.changelog_codec import LoggedProgress, decode_record
from streams.store.row_codec import EntryBlock

TINY = ["--count", "6", "--rounds", "2", "--characters", "300"]


def figures_of(path: Path) -> Any:  # noqa: ANN401 - what JSON may be
    return json.loads(path.read_text("utf-8"))


def test_generated_documents_are_chinese_and_always_the_same() -> None:
    texts = generated_documents(20, 500)
    assert texts == generated_documents(20, 500)
    assert len(set(texts)) == 20
    assert {len(text) for text in texts} == {500}
    for text in texts:
        assert sum("\u4e00" <= character <= "\u9fff" for character in text) > 350


def test_fingerprints_of_all_profiles_beside_segmentation_without_peers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "figures.json"
    fingerprints.main([*TINY, "--without-peers", "--json", str(path)])
    figures = figures_of(path)

    names = [each["name"] for each in figures["contenders"]]
    assert names == [*(f"firstseen {name}" for name in PROFILES), "rjieba, no fingerprint"]
    assert all(each["cpu_us"]["median"] > 0 for each in figures["contenders"])
    assert [each["goal"] for each in figures["ratios"]] == [0.5] * len(PROFILES)
    assert figures["documents"] == 6
    assert figures["characters"] == 300
    assert figures["machine"]["processors"] >= 1
    steps = ["normalise", "segment", "count", "weigh", "sum", "digest"]
    assert [[stage["stage"] for stage in each["stages"]] for each in figures["stages"]] == [
        steps,
        [*steps[:-1], "sketch", steps[-1]],
    ]
    shown = capsys.readouterr().out
    assert all(name in shown for name in [*names, *steps])


@pytest.mark.parametrize("name", ["documents.jsonl", "documents.jsonl.gz"])
def test_long_enough_texts_of_a_file_are_cut_and_standard_output_is_json(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes], name: str
) -> None:
    lines = [json.dumps({"text": "新桥今天通车了，" * size}) for size in (1, 40, 50)]
    path = tmp_path / name
    content = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    arguments = [*TINY, "--without-peers", "--documents", str(path), "--json", "-"]

    fingerprints.main(arguments)

    figures = json.loads(capsysbinary.readouterr().out)
    assert figures["documents"] == 2
    assert figures["source"] == name


@pytest.mark.slow
def test_a_worker_end_to_end_has_a_rate_and_its_steps(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    worker.main(["--count", "40", "--rounds", "1", "--json", str(path)])
    figures = figures_of(path)
    assert {each["profile"] for each in figures["profiles"]} == PROFILES.keys()
    for each in figures["profiles"]:
        assert each["documents_per_second"]["median"] > 0
        assert each["worker_cpu_us"]["median"] > 0
        steps = {stage["stage"] for stage in each["stages"]}
        assert {"fingerprint", "append", "lookup", "decide", "output", "commit", "store"} <= steps


def test_several_benchmarks_in_one_json_without_tables(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(fingerprints, "DOCUMENTS", 4)
    monkeypatch.setattr(fingerprints, "ROUNDS", 1)
    monkeypatch.setattr(all_benchmarks, "_RECOVERED", 300)
    arguments = ["--only", "fingerprints", "recovery", "--without-peers", "--json", "-"]

    all_benchmarks.main(arguments)

    figures = json.loads(capsysbinary.readouterr().out)
    assert list(figures) == ["fingerprints", "recovery"]
    recovered = [each["documents"] for each in figures["recovery"]["figures"]]
    assert recovered == [300] * len(PROFILES)


def test_a_contender_that_dies_or_hangs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    python = Path(sys.executable)
    with (
        pytest.raises(MeasurementError, match="absent has died"),
        fingerprints.running(python, "absent", "", ["text"]),
    ):
        pass
    monkeypatch.setattr(fingerprints, "_TURN_SECONDS", 0.01)
    with (
        pytest.raises(MeasurementError, match="firstseen wide has died, or took more than"),
        fingerprints.running(python, "firstseen", "wide", ["text"]),
    ):
        pass


def test_recovery_from_records_finds_all_documents_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, state_dir = tmp_path / "figures.json", tmp_path / "state"
    state_dir.mkdir()
    recovery.main(f"--documents 600 --state-dir {state_dir} --json {path}".split())

    figures = {each["profile"]: each for each in figures_of(path)["figures"]}
    assert figures.keys() == PROFILES.keys()
    for each in figures.values():
        assert (each["source"], each["documents"], each["records"]) == ("records", 600, 4)
        assert each["documents_per_cpu_second"] > 0
    assert 256 + 27 + 32 + 16 + 20 < figures["wide"]["bundle_bytes"] < 400
    assert 8 + 16 + 20 < figures["classic"]["changelog_bytes"] < 60
    assert "600" in capsys.readouterr().out
    assert list(state_dir.iterdir()) == []


def test_every_case_of_the_loop_has_its_steps_in_json_and_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "figures.json"
    sizes = ["--bundles", "60", "--partitions", "5", "--rounds", "2", "--entries", "600"]
    loop_lag.main([*sizes, "--state-dir", str(tmp_path), "--json", str(path)])
    figures = figures_of(path)

    cases = {each["name"]: each for each in figures["cases"]}
    assert list(cases) == list(loop_lag.CASES)
    assert [each["documents"] for each in cases.values()] == [60, 60, 10, 600]
    assert all(each["steps"] >= len(each["longest"]) == 5 for each in cases.values())
    assert all(each["longest"] == sorted(each["longest"], reverse=True) for each in cases.values())
    assert "partitions" in capsys.readouterr().out


def test_a_long_step_of_a_task_or_a_timer_is_seen() -> None:
    loop = loop_lag.TimedLoop()

    def compute() -> None:
        end = time.thread_time() + 0.06
        while time.thread_time() < end:
            pass

    async def task() -> None:
        await asyncio.sleep(0)
        compute()
        loop.call_later(0.001, compute)
        await asyncio.sleep(0.1)

    loop.run_until_complete(task())
    loop.close()

    assert sum(step > loop_lag.STEP_MAX for step in loop.steps) == 2


def test_a_small_index_has_all_goals_and_its_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--documents", "3000", "--flood", "5000", "--profile", "classic"]

    index_main([*arguments, "--without-peers", "--json", "-", "--state-dir", str(tmp_path)])

    found = json.loads(capsys.readouterr().out)
    assert list(found["goals"]) == list(goals_of([]))
    assert found["goals"]["classic_disk_bytes_a_document"]["value"] > 50
    assert found["goals"]["wide_disk_bytes_a_document"]["met"] is None
    uniform, skewed, flooded = found["figures"]
    assert (uniform["skewed"], skewed["skewed"]) == (False, True)
    keys = {"cpu_us", "open_seconds", "rebuilt_per_cpu_second", "lines_per_cpu_second"}
    assert keys <= uniform["values"].keys()
    assert flooded["values"]["flood_uniques"] == 1
    assert found["goals"]["classic_flood_last_beside_first"]["value"] > 0
    assert list(tmp_path.iterdir()) == []


def test_figures_of_as_many_documents_are_judged_by_the_goals() -> None:
    def measured(who: str, documents: int, *, skewed: bool = False, **values: float) -> Measured:
        return Measured(who=who, documents=documents, skewed=skewed, values=values)

    goals = goals_of(
        [
            measured("classic", 100_000, cpu_us=2, look_up_cpu_us=1),
            measured("classic", 100_000, skewed=True, cpu_us=4, look_up_cpu_us=3),
            measured("classic", MILLION, cpu_us=4, disk_bytes=119),
            measured("classic", 10 * MILLION, cpu_us=7, open_seconds=6),
            measured("simhash", 100_000, cpu_us=500),
            measured("simhash", MILLION, cpu_us=16),
        ]
    )

    values = {key: (each["value"], each["met"]) for key, each in goals.items() if each["value"]}
    assert values == {
        "classic_times_faster_than_simhash": (4, False),
        "classic_cpu_10m_beside_1m": (1.75, True),
        "classic_look_up_skewed_beside_uniform": (3, False),
        "classic_disk_bytes_a_document": (119, True),
        "classic_open_seconds_at_10m": (6, False),
    }


def test_one_index_for_many_shards(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    index_shards.main(["--shards", "1", "3", "--documents", "900", "--json", str(path)])
    figures = figures_of(path)
    assert [each["shards"] for each in figures] == [1, 3]
    for name in ("us_a_document", "us_a_packet", "open_seconds"):
        assert all(each[name] > 0 for each in figures)


def test_an_index_of_real_texts_beside_as_many_random_documents(tmp_path: Path) -> None:
    texts = generated_documents(700, 200)
    source = tmp_path / "texts.jsonl"
    # Each tenth document of the index is there twice, and each second that is looked up.
    texts[9:250:10] = texts[8:249:10]
    texts[500:750:2] = texts[:100]
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    path = tmp_path / "figures.json"
    command = [str(source), "--sizes", "500", "--looked-up", "200", "--profile", "quick"]

    real_texts.main([*command, "--jobs", "1", "--json", str(path)])

    real, random = figures_of(path)["figures"]
    assert (real["texts"], random["texts"]) == ("real", "random")
    assert real["read"] == 500
    assert real["documents"] == random["documents"] <= 475
    assert real["matched"] >= 0.5 > random["matched"] == 0
    for name in ("look_up_us", "slowest_look_up_us", "disk_bytes", "memory_mb"):
        assert real[name] > 0 < random[name]


def test_paragraphs_of_directories_archives_and_documents_are_distinct(tmp_path: Path) -> None:
    source, path = tmp_path / "source", tmp_path / "paragraphs.jsonl"
    (source / "pages").mkdir(parents=True)
    (source / "plain.txt").write_text(
        "one  paragraph\nof two lines\n\n \nshort\n\nanother paragraph"
    )
    (source / "pages" / "page.html").write_text(
        "<style>p {color: red} and more</style><p>a <b>bold</b> word &amp; more</p>"
        "<div>another <i>paragraph</i></div>"
    )
    (source / "not-text").write_bytes(b"\xff\xfe a paragraph in another encoding")
    with tarfile.open(tmp_path / "more.tar.xz", "w:xz") as archive:
        archive.add(source / "plain.txt", "same.txt")
        archive.add(paragraphs.__file__, "code.py")
    lines = gzip.compress(json.dumps({"text": "a paragraph of a document"}).encode())
    (tmp_path / "documents.jsonl.gz").write_bytes(lines)
    sources = [str(source), str(tmp_path / "more.tar.xz"), str(tmp_path / "documents.jsonl.gz")]

    paragraphs.main([str(path), *sources, "--characters", "10"])

    texts = [json.loads(line)["text"] for line in path.read_text().splitlines()]
    assert len(texts) == len(set(texts))
    code = {text for text in texts if text in Path(paragraphs.__file__).read_text()}
    assert len(code) > 10
    assert sorted(set(texts) - code) == [
        "a bold word & more",
        "a paragraph of a document",
        "another paragraph",
        "one  paragraph\nof two lines",
    ]


def test_what_is_joined_is_judged_by_roots_or_by_exact_similarity(tmp_path: Path) -> None:
    texts = ["a text about the bridge", "a text about the bridge!", "something else entirely"]
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    named = [0, 0, 0]  # the last one wrongly
    for judge in (Judge.of_roots([0, 0, 2]), Judge.of_named([named], path)):
        assert judge.quality(named) == {"joined": 2, "recall": 1, "precision": 0.5}
        assert judge.quality([0, REPEATS, 2]) == {"joined": 1, "recall": 1, "precision": 1}
        assert judge.quality([REPEATS, 1, 2]) == {"joined": 1, "recall": 0, "precision": 0}
        assert judge.quality([ALIKE, ALIKE, 2]) == {"joined": 2, "recall": 1, "precision": 1}


def test_tables_show_lists_parts_by_name_and_what_is_nested(
    capsys: pytest.CaptureFixture[str],
) -> None:
    figures = {
        "documents": 1_000,
        "cases": [{"name": "one", "cpu_us": Spread(1.0, 2.0, 3.5)}, {"name": "two", "steps": [7]}],
        "goals": {"speed": {"value": 1234.5, "met": True}},
        "stages": [{"profile": "wide", "stages": [{"stage": "sum", "cpu_us": 0.12345}]}],
    }
    show(tables_of(figures))
    shown = capsys.readouterr().out
    for line in (
        "documents 1,000",
        "name cpu us steps",
        "one 2 (1 to 3.5)",
        "two 7",
        "speed 1,234 True",
        "wide stages",
        "sum 0.1235",
    ):
        assert line in " ".join(re.sub("[^ -~]+", " ", shown).split())


def test_the_log_of_a_benchmark_has_what_its_changelog_is_made_from() -> None:
    """Workers refuse a log that lacks what is committed."""
    settings = load_settings(assignments=[], environ={}).settings
    first, position = 3, 6
    records = changelog_of(settings, CHAIN, 2 * PACKET + 1, first, position)
    *blocks, progress = [decode_record(each.key, each.value, "the test's") for each in records]
    firsts = [int(each.sequences[0]) for each in blocks if isinstance(each, EntryBlock)]
    assert [*map(log_offset_of, firsts)] == [3, 4, 5]
    assert isinstance(progress, LoggedProgress)
    assert progress.progress.position == position
