"""``firstseen idf``: training from files, using the model, and what goes wrong."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from streams.errors import ExitCode
from tests.unit.cli.running import firstseen, run_here

TEXTS = [
    "市交通局发布公告称，跨江大桥的加固工程将于下月初开始，货车绕行北环高速。",
    "跨江大桥昨晚封闭，货车绕行，公交线路改由隧道通行，居民表示理解。",
    "一家初创公司展示了新型电池，研究人员说关键在于陶瓷隔膜。",
]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A gzip file of three documents and a line that is none."""
    path = tmp_path / "news.jsonl.gz"
    lines = [json.dumps({"id": i, "text": text}) for i, text in enumerate(TEXTS)]
    path.write_bytes(gzip.compress("\n".join([*lines, "{"]).encode()))
    return path


def test_train_show_and_use(corpus: Path, tmp_path: Path) -> None:
    """Given documents, then a model of them is made, shown, and named in the index identity."""
    model = tmp_path / "news.v1.idf"
    code, out, err = run_here(
        "idf", "train", str(corpus), "-o", str(model), "--least", "1", "--json"
    )
    made = json.loads(out)
    assert code == ExitCode.OK, err
    assert err.count("\n") == 1, "the line that is no document"
    assert made["name"] == "news"
    assert (made["documents"], made["segmenter"], made["undercount"]) == (3, "words", 0)

    code, out, _ = run_here("idf", "show", str(model), "大桥", "的", "没有", "--json")
    assert code == ExitCode.OK
    shown = json.loads(out)
    assert shown["idf"] == {"大桥": 0.9163, "的": 1.3863, "没有": shown["unknown"]}

    code, out, _ = run_here("config", "show", "--json", "--set", f"index.idf={model}")
    assert code == ExitCode.OK
    shown = json.loads(out)
    assert f"idf={made['identity']} " in shown["identity"]

    code, out, _ = run_here(
        "fingerprint", "--text", TEXTS[0], "--json", "--set", f"index.idf={model}"
    )
    assert code == ExitCode.OK
    assert json.loads(out)["index"] == shown["index"]


def test_text_files_and_folders(corpus: Path, tmp_path: Path) -> None:
    """Given a .txt with a text a line, a folder, and JSON lines, then all are documents."""
    lines = tmp_path / "more.txt"
    lines.write_text("\n".join(TEXTS[:2]), "utf-8")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.md").write_text(TEXTS[2], "utf-8")
    code, out, err = run_here(
        *("idf", "train", str(lines), str(folder), str(corpus), "-o", str(tmp_path / "m")),
        *("--name", "all-3", "--json"),
    )
    assert code == ExitCode.OK, err
    assert json.loads(out)["documents"] == 6
    assert json.loads(out)["identity"].startswith("all-3-")


def test_a_model_is_not_replaced_unasked(corpus: Path, tmp_path: Path) -> None:
    """Given a file that exists, then it stays, unless --force is given."""
    model = tmp_path / "kept.idf"
    model.write_text("precious")
    code, _, err = run_here("idf", "train", str(corpus), "-o", str(model))
    assert code == ExitCode.USAGE
    assert "--force" in err
    assert model.read_text() == "precious"
    assert run_here("idf", "train", str(corpus), "-o", str(model), "--force")[0] == ExitCode.OK
    assert model.read_text("utf-8").startswith("firstseen-idf/1\n")


def test_a_name_that_cannot_stand_in_an_identity(corpus: Path, tmp_path: Path) -> None:
    """Given a file in Chinese, then --name is asked for."""
    code, _, err = run_here("idf", "train", str(corpus), "-o", str(tmp_path / "新闻.idf"))
    assert code != ExitCode.OK
    assert "--name" in err


@pytest.mark.parametrize("setting", ["idf", "user_dictionary", "stop_words"])
def test_files_of_the_index_that_cannot_be_read(setting: str, tmp_path: Path) -> None:
    """Given a path to nothing, or a file that is none, then the setting is named, exit code 78."""
    for path, message in (
        (tmp_path / "gone", "No such file"),
        (tmp_path, "Is a directory"),
        (tmp_path / "bad", {"idf": "begins with"}.get(setting, "not UTF-8")),
    ):
        (tmp_path / "bad").write_bytes(b"\xff\xfe\x00")
        code, _, err = run_here(
            "fingerprint", "--text", TEXTS[0], "--set", f"index.{setting}={path}"
        )
        assert code == ExitCode.CONFIGURATION
        assert f"index.{setting}" in err
        assert message in err


def test_a_dictionary_and_a_stop_list_work_from_the_command_line(tmp_path: Path) -> None:
    """Given files of words, then terms follow them, and the identity names both."""
    words, stops = tmp_path / "words.txt", tmp_path / "stop.txt"
    words.write_text("跨江大桥\n", "utf-8")
    stops.write_text("货车\n", "utf-8")
    code, out, err = run_here(
        *("fingerprint", "--text", TEXTS[0], "--json", "--top", "100"),
        *("--set", f"index.user_dictionary={words}", "--set", f"index.stop_words={stops}"),
    )
    assert code == ExitCode.OK, err
    terms = {term["term"] for term in json.loads(out)["terms"]}
    assert "跨江大桥" in terms
    assert "货车" not in terms
    plain = json.loads(run_here("config", "show", "--json")[1])
    assert json.loads(out)["index"] != plain["index"]
    assert "stop-words=" not in plain["identity"]


def test_training_shows_no_bar_in_a_pipe(corpus: Path, tmp_path: Path) -> None:
    """Given no terminal, then standard error has the warning alone."""
    done = firstseen("idf", "train", str(corpus), "-o", str(tmp_path / "m.idf"))
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert "\r" not in done.stderr
    assert done.stdout.startswith(f"{tmp_path / 'm.idf'}: m-")
