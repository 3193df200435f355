"""``firstseen idf``: training from files, and using the model."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from streams.errors import ExitCode
from tests.unit.cli.running import firstseen, report_of, run_here

TEXTS = [
    "市交通局发布公告称，跨江大桥的加固工程将于下月初开始，货车绕行北环高速。",
    "跨江大桥昨晚封闭，货车绕行，公交线路改由隧道通行，居民表示理解。",
    "一家初创公司展示了新型电池，研究人员说关键在于陶瓷隔膜。",
]


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    """A gzip file of three documents and a line that is none."""
    path = tmp_path / "news.jsonl.gz"
    lines = [json.dumps({"id": i, "text": text}) for i, text in enumerate(TEXTS)]
    path.write_bytes(gzip.compress("\n".join([*lines, "{"]).encode()))
    return str(path)


def test_a_model_is_trained_shown_and_named_in_the_index_identity(
    corpus: str, tmp_path: Path
) -> None:
    model = str(tmp_path / "news.v1.idf")
    trained = run_here("idf", "train", corpus, "-o", model, "--least", "1", "--json")
    assert trained.returncode == ExitCode.OK, trained.stderr
    assert trained.stderr.count("\n") == 1, "the line that is no document"
    made = json.loads(trained.stdout)
    assert made["name"] == "news"
    assert (made["documents"], made["segmenter"], made["undercount"]) == (3, "words", 0)

    shown = report_of("idf", "show", model, "大桥", "的", "没有")
    assert shown["idf"] == {"大桥": 0.9163, "的": 1.3863, "没有": shown["unknown"]}

    used = ("--set", f"index.idf={model}")
    configured = report_of("config", "show", *used)
    assert f"idf={made['identity']} " in configured["identity"]
    found = report_of("fingerprint", "--text", TEXTS[0], *used)
    assert found["index"] == configured["index"]


def test_lines_of_text_folders_and_json_lines_are_documents(corpus: str, tmp_path: Path) -> None:
    lines = tmp_path / "more.txt"
    lines.write_text("\n".join(TEXTS[:2]), "utf-8")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.md").write_text(TEXTS[2], "utf-8")
    made = report_of(
        *("idf", "train", str(lines), str(folder), corpus, "-o", str(tmp_path / "m")),
        *("--name", "all-3"),
    )
    assert made["documents"] == 6
    assert made["identity"].startswith("all-3-")


def test_a_model_is_replaced_with_force(corpus: str, tmp_path: Path) -> None:
    (model := tmp_path / "kept.idf").write_text("precious")
    assert run_here("idf", "train", corpus, "-o", str(model), "--force")[0] == ExitCode.OK
    assert model.read_text("utf-8").startswith("firstseen-idf/1\n")


def test_a_dictionary_and_a_stop_list_change_terms_and_identity(tmp_path: Path) -> None:
    words, stops = tmp_path / "words.txt", tmp_path / "stop.txt"
    words.write_text("跨江大桥\n", "utf-8")
    stops.write_text("货车\n", "utf-8")
    found = report_of(
        *("fingerprint", "--text", TEXTS[0], "--top", "100"),
        *("--set", f"index.user_dictionary={words}", "--set", f"index.stop_words={stops}"),
    )
    terms = {term["term"] for term in found["terms"]}
    assert "跨江大桥" in terms
    assert "货车" not in terms
    plain = report_of("config", "show")
    assert found["index"] != plain["index"]
    assert "stop-words=" not in plain["identity"]


def test_training_shows_no_bar_in_a_pipe(corpus: str, tmp_path: Path) -> None:
    done = firstseen("idf", "train", corpus, "-o", str(tmp_path / "m.idf"))
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert "\r" not in done.stderr
    assert done.stdout.startswith(f"{tmp_path / 'm.idf'}: m-")
