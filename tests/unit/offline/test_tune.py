"""``firstseen tune``: generated edits, the choice of a threshold, and its certainty."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from simhash_core.analysis.exact_similarity import exact_jaccard
from simhash_core.text.profiles import profile_named
from streams.cli.evaluation_commands import tuned_view
from streams.cli.main import main
from streams.errors import ExitCode
from streams.evaluation.figures import POSITIVE
from streams.evaluation.injected_edits import EDITS, Edit, edited, edited_copies, inject
from streams.evaluation.labelled_files import documents_again
from streams.evaluation.tuning import Tuned, TunedPoint, best, lower_bound, pairs_needed
from streams.settings.loader import load_settings
from streams.settings.settings import IndexSettings, Settings
from tests.unit.offline.labelled_sample import labelled_sample

CHINESE = (
    "今天上午新桥正式通车。市长和居民代表走过桥面。这座桥把两岸连在一起。\n市民出行更方便。" * 6
)
TRADITIONAL = (
    "今天上午新橋正式通車。市長和居民代表走過橋面。這座橋把兩岸連在一起。\n市民出行更方便。" * 6
)
ENGLISH = (
    "The bridge opened today. The mayor and residents walked across.\nTraffic is lighter. " * 6
)
OTHER = "研究人员发布了新的电池材料。充电更快，寿命更长。Prices will fall next year. " * 6


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("text", [CHINESE, ENGLISH])
def test_edit_leaves_most_of_a_text_and_repeats(edit: Edit, text: str) -> None:
    made = edited(random.Random(3), edit, text, OTHER, 0.1)
    assert made != text
    assert made == edited(random.Random(3), edit, text, OTHER, 0.1)
    if edit is not Edit.RETYPE:  # it changes case and width, which change the Jaccard
        assert exact_jaccard(text, made) > 0.3
    for short in ("", "雪", "a", "…"):
        assert isinstance(edited(random.Random(1), edit, short, "", 0.1), str)


def test_words_that_are_put_in_are_of_the_other_text() -> None:
    longer = edited(random.Random(5), Edit.INSERT, CHINESE, OTHER, 0.05)
    shorter = edited(random.Random(5), Edit.DELETE, CHINESE, OTHER, 0.05)
    assert len(longer) > len(CHINESE) > len(shorter)
    assert not Counter(shorter) - Counter(CHINESE)
    assert set(longer) <= set(CHINESE) | set(OTHER)


def test_copies_go_through_all_kinds() -> None:
    copies = edited_copies([CHINESE, ENGLISH, OTHER], 8, seed=1)
    assert [copy.of for copy in copies] == [0] * 8 + [1] * 8 + [2] * 8
    assert {copy.edits[0] for copy in copies} == set(EDITS)
    assert sum(len(copy.edits) == 2 for copy in copies) == 6
    assert copies == edited_copies([CHINESE, ENGLISH, OTHER], 8, seed=1)
    assert copies != edited_copies([CHINESE, ENGLISH, OTHER], 8, seed=2)


def test_injected_copies_are_labelled_with_their_original(tmp_path: Path) -> None:
    source = labelled_sample(tmp_path, documents=60)
    made = inject(source.documents, Settings(), tmp_path, size=40, copies=2, seed=4)
    assert made.drawn == 40
    assert made.originals == made.drawn - made.repeats < 40
    assert made.copies == 2 * made.originals == len(made.labelled.pairs)
    groups = made.labelled.documents.groups
    assert None not in groups
    assert all(groups[pair.first] == groups[pair.second] for pair in made.labelled.pairs)
    assert all(
        (pair.label == POSITIVE) == (pair.jaccard is not None and pair.jaccard >= 0.5)
        for pair in made.labelled.pairs
    )


@pytest.mark.parametrize(
    ("text", "repeat", "folds"),
    [
        (ENGLISH, ENGLISH.translate({code: code + 0xFEE0 for code in range(0x21, 0x7F)}), False),
        (CHINESE, TRADITIONAL, True),
    ],
)
def test_repeats_in_other_letters_are_left_out(
    text: str, repeat: str, folds: bool, tmp_path: Path
) -> None:
    assert exact_jaccard(text, repeat) < 0.5
    source = tmp_path / "drawn-from.jsonl"
    texts = (text, OTHER, repeat)
    source.write_bytes(b"".join(msgspec.json.encode({"text": each}) + b"\n" for each in texts))
    settings = Settings(index=IndexSettings(fold_traditional=folds))
    made = inject(str(source), settings, tmp_path, size=10, copies=1, seed=1)
    assert (made.drawn, made.repeats) == (3, 1)


def test_no_copy_is_empty(tmp_path: Path) -> None:
    source = tmp_path / "drawn-from.jsonl"
    texts = "abcdefgh"
    source.write_bytes(b"".join(msgspec.json.encode({"text": text}) + b"\n" for text in texts))
    made = inject(str(source), Settings(), tmp_path, size=10, copies=4, seed=1)
    assert made.originals == len(texts)
    assert made.copies == len(made.labelled.pairs) < 4 * len(texts)
    assert all(document.text for document in documents_again(made.labelled.file, Settings()))


def point(recall: float, precision: float, **other: object) -> TunedPoint:
    values = dict.fromkeys(TunedPoint.__struct_fields__) | {"profile": "wide", "distance": 10}
    values |= {"joined_pairs": 100, "state_bytes_per_document": 1000, **other}
    return TunedPoint(**{**values, "recall": recall, "precision": precision})  # type: ignore[arg-type] # by name


def test_best_point_is_chosen() -> None:
    """It has the highest recall with enough precision; within 0.03, the smaller state wins."""
    loose, good, strict = point(0.99, 0.97), point(0.9, 0.991), point(0.5, 1.0)
    assert best([loose, good, strict], 0.99, 100) == good
    assert best([loose, good, strict], 0.96, 100) == loose
    assert best([loose, good, strict], 0.999, 100) == strict
    assert best([loose], 0.99, 100) is None
    small = point(0.88, 0.995, state_bytes_per_document=200)
    assert best([good, small], 0.99, 100) == small
    assert best([good, point(0.86, 1.0, state_bytes_per_document=200)], 0.99, 100) == good


def test_lower_bound_of_a_share() -> None:
    """Wilson's bound: with all of 10 right it is 10 / (10 + z²)."""
    assert lower_bound(1.0, 10) == pytest.approx(10 / (10 + 1.6449**2))
    low = [lower_bound(0.9, count) or 0.0 for count in (10, 100, 10_000)]
    assert low == sorted(low)
    assert 0.89 < low[-1] < 0.9
    assert lower_bound(0.0, 5) == 0
    assert lower_bound(None, 5) is None


def test_pairs_needed_are_as_few_as_show_the_precision() -> None:
    for share, pairs in ((1.0, 268), (0.995, 1072), (0.991, 26_787)):
        assert pairs_needed(0.99, share) == pairs
        assert (lower_bound(share, pairs) or 0) >= 0.99 > (lower_bound(share, pairs - 1) or 0)
    assert pairs_needed(0.99, 0.99) is pairs_needed(0.99, 0.5) is pairs_needed(0.99, None) is None


def shown(joined_pairs: int, precision: float, wanted: float) -> str:
    """Return the text about a recommended point with this number of joined pairs."""
    low = lower_bound(precision, joined_pairs)
    chosen = point(0.9, precision, joined_pairs=joined_pairs, precision_low=low)
    tuned = Tuned(
        precision_wanted=wanted,
        recommended=chosen,
        enough=low is not None and low >= wanted,
        pairs_needed=pairs_needed(wanted, precision),
        positives=100,
        documents=1000,
        curve=[chosen],
    )
    return str(tuned_view(tuned, None, IndexSettings())[-1])


def test_a_sample_that_is_too_small_is_said_to_be_so_in_figures_that_agree() -> None:
    """If all were right, 268 pairs would be enough; of these 696, some are wrong."""
    said = shown(696, 0.995, 0.99)
    assert "Of the 696 pairs that it joined, 99.50% are correct" in said
    assert "98.83% or more is likely, which does not show 99.00% yet" in said
    assert "1,072 joined pairs show it: use a sample that is about 1.5 times as large" in said
    assert "more pairs with this share would not" in shown(696, 0.99, 0.99)
    assert "does not show" not in shown(300, 1.0, 0.99)


def test_recommended_point_is_on_curve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample = labelled_sample(tmp_path, documents=80)
    arguments = ["tune", "--documents", sample.documents, "--pairs", sample.pairs]
    assert main([*arguments, "--precision", "0.97", "--profile", "classic", "--json"]) == 0
    tuned = json.loads(capsys.readouterr().out)
    assert {each["profile"] for each in tuned["curve"]} == {"classic"}
    assert tuned["recommended"] in tuned["curve"]
    assert tuned["recommended"]["precision"] >= 0.97
    assert tuned["positives"] == sample.positives
    assert tuned["enough"] is False
    assert tuned["injected"] is None


def test_the_mean_of_two_similarities_is_tuned_before_the_other_thresholds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = labelled_sample(tmp_path, documents=60)
    arguments = ["tune", "--documents", sample.documents, "--pairs", sample.pairs]
    assert main([*arguments, "--profile", "wide", "--json"]) == ExitCode.OK
    curve = json.loads(capsys.readouterr().out)["curve"]
    thresholds = [(each["distance"], each["verify_at"], each["mean_at"]) for each in curve]
    assert len(set(thresholds)) == len(thresholds)
    wide = profile_named("wide")
    means = [mean for _, _, mean in thresholds[:10]]
    assert means == sorted(set(means))
    assert wide.mean_at in means
    assert {each[:2] for each in thresholds[:10]} == {(wide.distance, wide.verify_at)}
    assert {at for _, at, _ in thresholds} > {wide.verify_at}
    assert {distance for distance, _, _ in thresholds} > {wide.distance}

    assert main([*arguments, "--profile", "wide", "--mean-at", "0.75"]) == ExitCode.OK
    shown = capsys.readouterr().out
    assert "mean_at = " in shown
    assert "0.75" in shown


def test_tuning_on_edits_shows_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample = labelled_sample(tmp_path, documents=60)
    assert main(["tune", "--documents", sample.documents, "--sample", "20"]) == ExitCode.OK
    shown = capsys.readouterr().out
    assert "edited copies of" in shown
    assert "classic" in shown
    assert "[index]" in shown
    assert "too small" in shown


@pytest.mark.parametrize(
    "given",
    [
        ("index.verify=cosine", "index.window=30d", "index.fold_traditional=true"),
        ("index.mean_at=0",),
        ("index.verify=none", "index.min_features=20"),
    ],
)
def test_the_lines_for_a_settings_file_are_what_was_tried(
    given: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = labelled_sample(tmp_path, documents=60)
    arguments = ["tune", "--documents", sample.documents, "--pairs", sample.pairs]
    arguments += ["--profile", "wide", *(f"--set={each}" for each in given), "--precision", "0.5"]

    assert main(arguments) == ExitCode.OK
    lines = capsys.readouterr().out.partition("\n\n  profile")[2].partition("\n\n")[0]
    (file := tmp_path / "tuned.toml").write_text(f"profile{lines}")
    assert main([*arguments, "--json"]) == ExitCode.OK
    best = json.loads(capsys.readouterr().out)["recommended"]

    tried = [f"index.{name}={best[name]}" for name in ("distance", "verify_at") if best[name]]
    expected = load_settings(assignments=["profile=wide", *given, *tried], environ={}).settings
    assert load_settings(config=file, environ={}).settings.index_profile() == (
        expected.index_profile()
    )


def test_tuning_refuses_empty_documents_and_impossible_precision(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text('{"id": "a", "text": " "}\n')
    assert main(["tune", "--documents", str(path)]) == ExitCode.RUNTIME
    assert str(path) in capsys.readouterr().err
    assert main(["tune", "--documents", str(path), "--precision", "1"]) == ExitCode.USAGE
