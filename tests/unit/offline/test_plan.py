"""The plan of an index: its estimated sizes and recall."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import msgspec
import numpy as np
import pytest

from benchmarks.random_documents import packet_of, random_columns
from simhash_core.analysis.plan import cosine_of_jaccard, recall_by_distance, recall_by_jaccard
from simhash_core.document_columns import BytesColumn
from simhash_core.errors import UsageError
from simhash_core.fingerprints.bands import PAIRS, TRIPLES, Bands
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.log.records import NO_CONTROL, Chain, Progress
from simhash_core.log.shard_stream import NewEntries
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import BLOCKS_INSTEAD_OF_BANDS, PROFILES
from simhash_core.text.verification import VERIFICATIONS
from streams.cli.main import main
from streams.corpus.corpus import generate
from streams.corpus.generated import EditKind
from streams.errors import ExitCode
from streams.offline.index_plan import (
    PARTITIONS_MIN,
    SHARD_BYTES_TARGET,
    SKETCH_BYTES,
    partitions_for,
    plan_index,
    row_bytes_per_document,
    segment_bytes_per_document,
    sketch_bytes,
    state_bytes_per_document,
)
from streams.store.rocksdb_store import block_cache
from streams.store.row_codec import StoredProgress, StoreIdentity
from streams.store.shard_directory import RocksDisk, open_shard

CHAIN = Chain("raw-documents", "", 15)
CLASSIC = BlockScheme(64, 4, 3)
PACKET = 2_000


def planned(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert main(["plan", *arguments, "--json"]) == ExitCode.OK
    result: dict[str, object] = json.loads(capsys.readouterr().out)
    return result


@pytest.mark.parametrize(
    ("documents", "a_block", "in_all"), [(2**34, 262_144, 1_048_576), (2**33, 131_072, 524_288)]
)
def test_sizing_of_the_published_method(
    capsys: pytest.CaptureFixture[str], documents: int, a_block: int, in_all: int
) -> None:
    """The candidates equal the published ones, with any default profile."""
    arguments = ["--documents", str(documents), "--bits", "64", "--blocks", "4", "--distance", "3"]
    plan = planned(capsys, *arguments)
    assert plan["candidates_per_block"] == a_block
    assert plan["candidates_per_lookup"] == in_all
    assert isinstance(plan["candidates_per_block"], int)
    assert plan["guaranteed"] is True
    assert plan["block_bits"] == 16
    assert plan["sketch_bytes"] == 0


@pytest.mark.parametrize("verify", VERIFICATIONS)
def test_bytes_of_a_sketch_are_those_of_articles(verify: str) -> None:
    texts = [
        json.loads(record.value)["text"]
        for record in generate(1, 40)
        if record.kind is EditKind.ORIGINAL and record.value is not None
    ]
    wide = msgspec.structs.replace(PROFILES["wide"], mean_at=0.0)
    profile = msgspec.structs.replace(wide, verify=verify, **BLOCKS_INSTEAD_OF_BANDS)
    printed = Fingerprinter(profile).fingerprint_batch(texts)
    measured = fmean(len(each.sketch) for each in printed)
    assert SKETCH_BYTES[verify] == pytest.approx(measured, rel=0.1)


def test_candidates_are_those_of_random_fingerprints() -> None:
    scheme = BlockScheme(64, 8, 7)
    rng = np.random.default_rng(5)
    values = rng.integers(0, 256, (4000, 8))
    met = (values[:200, None, :] == values[None, 200:, :]).sum(axis=2).sum(axis=1)
    expected = scheme.expected_candidates(3800)
    assert met.mean() == pytest.approx(expected, rel=0.05)


def test_recall_by_distance_is_that_of_random_differences() -> None:
    scheme = BlockScheme(256, 16, 48)
    curve = recall_by_distance(scheme)
    assert curve[0] == 1.0
    assert max(curve) == 48
    rng = np.random.default_rng(6)
    touched = [set(rng.choice(256, 48, replace=False) // 16) for _ in range(3000)]
    hits = sum(len(blocks) < 16 for blocks in touched)
    assert hits / 3000 == pytest.approx(curve[48], abs=0.03)
    assert recall_by_distance(CLASSIC) == dict.fromkeys(range(4), 1.0)


def test_planned_recall_by_jaccard() -> None:
    """With a Jaccard of 1/3, half of the 5-grams remain, so 2^(-2/5) of the words."""
    found = [*recall_by_jaccard(CLASSIC, [1.0, 0.9, 0.7, 0.0]).values()]
    assert found[0] == 1
    assert found == sorted(found, reverse=True)
    assert found[-1] < 1e-9
    assert cosine_of_jaccard(1 / 3) == pytest.approx(0.5**0.4)


def random_entries(profile: str, number: int) -> NewEntries:
    """Return entries with random fingerprints and sketches, and ids of 32 characters."""
    columns = random_columns(profile, number * PACKET, PACKET)
    ids = BytesColumn.of([b"%032d" % offset for offset in columns.offsets.tolist()])
    return NewEntries(number, packet_of(replace(columns, ids=ids), CHAIN), np.arange(PACKET))


@pytest.mark.parametrize("profile", PROFILES)
def test_bytes_of_state_are_those_on_disk(tmp_path: Path, profile: str) -> None:
    scheme, sketch = PROFILES[profile].scheme(), sketch_bytes(PROFILES[profile])
    owner = StoreIdentity("random", "plan", 0)
    with closing(open_shard(tmp_path, owner, scheme.bits, RocksDisk(block_cache()))) as store:
        for number in range(33):
            progress = Progress(CHAIN, number * PACKET, number, NO_CONTROL)
            store.commit([random_entries(profile, number)], StoredProgress(progress))
    size = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    rows = state_bytes_per_document(scheme, sketch) - segment_bytes_per_document(scheme)
    assert size / (33 * PACKET) == pytest.approx(rows, rel=0.25)
    assert row_bytes_per_document(scheme, 300) == row_bytes_per_document(scheme) + 300


def test_bytes_of_segments_go_by_buckets_and_bits() -> None:
    classic, wide = (PROFILES[name].scheme() for name in ("classic", "wide"))
    for scheme in (classic, wide):
        taken = segment_bytes_per_document(scheme) - scheme.bits // 8
        assert 4 * scheme.all_buckets < taken < 16 + 14 * scheme.all_buckets
    assert segment_bytes_per_document(wide, 10**7) < 0.9 * segment_bytes_per_document(wide, 10)
    more = BlockScheme(256, 0, 68, 16, bands=36, band_bins=3)
    assert segment_bytes_per_document(more) > segment_bytes_per_document(wide) + 9 * 4


def test_partitions_keep_shards_small() -> None:
    held = PARTITIONS_MIN * SHARD_BYTES_TARGET
    assert partitions_for(0) == PARTITIONS_MIN
    assert partitions_for(held) == PARTITIONS_MIN
    assert partitions_for(held + 1) == 2 * PARTITIONS_MIN
    plan = plan_index(2**34, PROFILES["classic"], partitions=7)
    assert plan.partitions == 7
    assert plan.partitions_suggested >= 64
    assert plan.state_bytes_per_partition * 7 >= plan.state_bytes


def test_workers_share_memory_and_candidates() -> None:
    one, four = (plan_index(2**30, PROFILES["wide"], 16, workers) for workers in (1, 4))
    assert four.candidates_per_worker * 4 == one.candidates_per_worker == one.candidates_per_lookup
    assert four.memory_bytes_per_worker * 4 == one.memory_bytes_per_worker == one.memory_bytes
    assert plan_index(2**30, PROFILES["wide"], 64).state_bytes == one.state_bytes
    assert plan_index(10, PROFILES["classic"], workers=9).partitions >= 9
    with pytest.raises(UsageError, match="workers is 17"):
        plan_index(2**30, PROFILES["wide"], 16, 17)
    with pytest.raises(UsageError, match="partitions is 4097"):
        plan_index(2**30, PROFILES["wide"], 4097)


def test_plan_for_people_fits_in_90_cells(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--documents", "1000000", "--profile", "classic"]) == ExitCode.OK
    shown = capsys.readouterr().out
    for said in ("candidates per look-up", "Guaranteed", "3 bits  100.0%"):
        assert said in shown
    lines = [line for line in shown.splitlines() if not line.startswith("Expected")]
    assert max(map(len, lines)) <= 90
    assert main(["plan", "--documents", "1000000", "--workers", "3"]) == ExitCode.OK
    assert "buckets per worker" in capsys.readouterr().out


def test_candidates_of_bands_stay_few() -> None:
    wide = plan_index(10_000_000, PROFILES["wide"], workers=12)
    assert wide.candidates_per_lookup < 5
    assert (wide.advice, wide.candidates_per_block, wide.recall_by_distance) == (None, 0, [])


def test_too_many_candidates_come_with_advice() -> None:
    classic, wide = PROFILES["classic"], PROFILES["wide"]
    assert plan_index(10_000_000, classic).advice is None
    assert "profile wide" in str(plan_index(10**9, classic).advice)
    assert plan_index(10**9, classic, workers=64).advice is None
    assert plan_index(10**6, wide).advice is None
    of_two = msgspec.structs.replace(wide, bands=12, band_bins=PAIRS)
    assert plan_index(999_999, of_two).advice is None
    assert "index.band_bins = 3" in str(plan_index(10**6, of_two).advice)


@pytest.mark.parametrize(
    ("bands", "expected"),
    [
        (Bands(12, PAIRS), 1 - (1 - 0.5**2) ** 12),
        (Bands(1, TRIPLES), 0.5**3),
        (Bands(9, TRIPLES), 298 / 512),
    ],
)
def test_recall_of_bands_goes_by_the_jaccard(bands: Bands, expected: float) -> None:
    """Of nine bins, 298 of the 512 sets contain one of nine bands of three bins."""
    scheme = BlockScheme(256, 0, 255, bands=bands.number, band_bins=bands.bins)
    recalls = recall_by_jaccard(scheme, [0.5, 1.0])
    assert recalls[0.5] == pytest.approx(expected, abs=0.005)
    assert recalls[1.0] == pytest.approx(1.0, abs=1e-6)
    near = BlockScheme(256, 0, 20, bands=bands.number, band_bins=bands.bins)
    assert recall_by_jaccard(near, [0.5])[0.5] < recalls[0.5] / 2


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--documents", "-1"], "--documents"),
        (["--documents", "9", "--partitions", "0"], "--partitions"),
        ([], "--documents"),
    ],
)
def test_invalid_numbers_are_named(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *arguments]) == ExitCode.USAGE
    assert named in capsys.readouterr().err
