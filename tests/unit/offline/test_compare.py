"""``firstseen compare``: 64 bits, 128 bits and the cosine, side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simhash_core.text.profiles import PROFILES
from streams.cli.main import main
from streams.errors import ExitCode
from streams.offline.explanation import compare

ARTICLE = (
    "今天上午，新桥正式通车，市长和居民代表一起走过桥面。这座桥把两岸连在一起，市民出行更方便。"
)
EDITED = ARTICLE.replace("市长和居民代表", "几位工程师").replace("两岸", "东西两岸")
OTHER = "研究人员发布了一种新的电池材料，充电更快，寿命更长，预计明年开始量产，价格也会下降不少。"


def written(directory: Path, name: str, text: str) -> str:
    path = directory / name
    path.write_text(text, "utf-8")
    return str(path)


def test_three_measures_agree_on_what_is_nearer() -> None:
    near = compare(PROFILES["wide"], ARTICLE, EDITED)
    far = compare(PROFILES["wide"], ARTICLE, OTHER)
    same = compare(PROFILES["wide"], ARTICLE, ARTICLE)
    assert [each.bits for each in near.simhash] == [64, 128]
    for nearer, farther in zip(near.simhash, far.simhash, strict=True):
        assert nearer.distance is not None
        assert farther.distance is not None
        assert 0 < nearer.distance < farther.distance < farther.bits
    assert 0 <= far.vsm_cosine < near.vsm_cosine < 1
    assert [each.distance for each in same.simhash] == [0, 0]
    assert same.vsm_cosine == 1


def test_cosine_is_of_term_frequencies_and_needs_words() -> None:
    compared = compare(PROFILES["wide"], "the the bridge", "the bridge bridge")
    assert compared.vsm_cosine == pytest.approx(4 / 5)
    assert (compared.features_a, compared.features_b) == (2, 2)
    compared = compare(PROFILES["classic"], "……！", ARTICLE)
    assert [each.distance for each in compared.simhash] == [None, None]
    assert (compared.simhash[0].fingerprint_a, compared.vsm_cosine) == (None, 0)


def test_command_shows_table_and_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [written(tmp_path, "a.txt", ARTICLE), written(tmp_path, "b.txt", EDITED)]
    assert main(["compare", *files]) == ExitCode.OK
    shown = capsys.readouterr().out
    for row in ("SimHash, 64 bits", "SimHash, 128 bits", "VSM, term frequencies"):
        assert row in shown
    assert main(["compare", *files, "--weighting", "tf", "--json"]) == ExitCode.OK
    compared = json.loads(capsys.readouterr().out)
    assert compared["weighting"] == "tf"
    assert [len(each["fingerprint_a"]) for each in compared["simhash"]] == [16, 32]


def test_unreadable_files_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = written(tmp_path, "a.txt", ARTICLE)
    binary = tmp_path / "b.bin"
    binary.write_bytes(b"\xff\xfe")
    for arguments, message in (
        ([a, str(tmp_path / "none")], "No such file"),
        ([a, str(binary)], "not UTF-8"),
        (["-", "-"], "cannot both be standard input"),
    ):
        assert main(["compare", *arguments]) == ExitCode.USAGE
        assert message in capsys.readouterr().err
