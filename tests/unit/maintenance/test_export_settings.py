"""An export of an index with other settings: only its blocks and thresholds may differ."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path

import pytest

from simhash_core.errors import UsageError
from simhash_core.text.fingerprinter import Fingerprinter
from streams.errors import ExitCode, exit_code_of
from streams.maintenance.exporting import EXPORT_SCHEMA, ExportHeader, encode_header
from streams.maintenance.loading import FileSource, LoadedRun, OtherExportError
from streams.settings.loader import load_settings
from streams.settings.settings import Settings

TEXT = "流处理作业在重启之后，会从最近的检查点继续；已经写出的记录，不会再写一次。" * 4
BEFORE_THE_MEAN = ("index.distance=68", "index.verify_at=0.518", "index.mean_at=0")
"""The thresholds of ``wide`` before it compared the mean of two similarities."""


def settings_with(*assignments: str) -> Settings:
    return load_settings(assignments=assignments, environ={}).settings


def exported(directory: Path, *made_with: str) -> Path:
    """Write the export of an index with these settings and one document."""
    fingerprinter = Fingerprinter(settings_with(*made_with).index_profile())
    header = ExportHeader(
        schema=EXPORT_SCHEMA, index=fingerprinter.identity, application="news", shards=[0]
    )
    made = fingerprinter.fingerprint(TEXT)
    assert made.undecidable is None
    line = {
        "id": "a",
        "fingerprint": made.fingerprint.hex(),
        "content": made.content_digest.hex(),
        "sketch": b64encode(made.sketch).decode(),
    }
    file = directory / "seen.jsonl"
    file.write_bytes(encode_header(header) + json.dumps(line).encode() + b"\n")
    return file


def loaded(file: Path, *settings: str) -> tuple[list[LoadedRun], list[str]]:
    """Read an export for an index with these settings; return the runs and the announcements."""
    announced: list[str] = []
    ours = settings_with(*settings)
    fingerprinter = Fingerprinter(ours.index_profile())
    source = FileSource(ours, fingerprinter, str(file), "auto", 1, announced.append)
    return list(source.runs(lambda *_: None)), announced


def test_an_export_with_other_thresholds_is_loaded_and_each_is_named(tmp_path: Path) -> None:
    """Thresholds change which documents are near, but not fingerprints and sketches."""
    (now,), announced = loaded(exported(tmp_path))
    assert announced == []
    (before,), (said,) = loaded(exported(tmp_path, *BEFORE_THE_MEAN))
    assert [before.columns.document_id(row) for row in range(len(before.columns))] == ["a"]
    assert before.columns.fingerprints.tolist() == now.columns.fingerprints.tolist()
    assert list(before.columns.sketches) == list(now.columns.sketches)
    for named in (
        "index.distance: there 68, here 72",
        "index.verify, index.verify_at: there shingles-1/5x512x4@0.518, here",
        "index.mean_at: there none, here 0.68",
        *("those of this index now apply", str(tmp_path / "seen.jsonl")),
    ):
        assert named in said


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("index.weighting=tf", "index.weighting: there tf, here tfidf-sublinear"),
        ("index.bands=14", "index.bands, index.band_bins: there 14x3, here 27x3"),
        ("index.band_bins=2", "index.bands, index.band_bins: there 27x2, here 27x3"),
        ("index.feature_hash=java", "index.feature_hash: there java, here xxh3"),
        ("index.fold_traditional=true", "index.fold_traditional: there simplified"),
        ("index.verify=cosine", "index.verify, index.verify_at: there cosine"),
    ],
)
def test_an_export_with_other_settings_is_refused_with_what_differs_and_the_fix(
    tmp_path: Path, setting: str, said: str
) -> None:
    """It does not name differing thresholds, because they are not the reason."""
    file = exported(tmp_path, "index.distance=68", setting)
    with pytest.raises(OtherExportError) as caught:
        loaded(file)
    message = str(caught.value)
    assert said in message
    assert "index.distance" not in message
    assert str(file) in message
    assert "Use the settings of the export, or load the texts instead" in message
    assert exit_code_of(caught.value) is ExitCode.CONFIGURATION


@pytest.mark.parametrize("copies", [1, 9])
def test_lines_with_sketches_for_other_bands_are_refused_without_a_header_too(
    tmp_path: Path, copies: int
) -> None:
    """Keys of bands would be read from other bytes of the sketch, so no copy would be found."""
    file = exported(tmp_path, "index.bands=12", "index.band_bins=2")
    (_, line) = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(line * copies)
    with pytest.raises(UsageError, match=r"line 1: its sketch has 304 bytes, .* index have 283"):
        loaded(file)
    loaded(file, "index.bands=12", "index.band_bins=2")
