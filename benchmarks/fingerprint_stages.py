"""Where the time of a fingerprint goes: the steps of the core, one after the other, timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, TypeVar

import msgspec
import numpy as np

from benchmarks.report import Spread
from simhash_core.documents import Content
from simhash_core.fingerprints.feature_hashes import feature_hash_named
from simhash_core.fingerprints.fingerprint import pack, scale, sums
from simhash_core.text import features
from simhash_core.text.fingerprinter import content_digest
from simhash_core.text.idf import jieba_idf
from simhash_core.text.lexicon import Lexicon
from simhash_core.text.normalization import normalize_batch
from simhash_core.text.profiles import Profile
from simhash_core.text.segmentation import load_segmenter
from simhash_core.text.segmentation_cache import SegmentationCache
from simhash_core.text.verification import Sketched
from simhash_core.text.weighting import weighting_named

_MICROSECONDS: Final = 1e6

_Result = TypeVar("_Result")


class StageTime(msgspec.Struct, frozen=True):
    """The processor's time of one step, microseconds a document."""

    stage: str
    cpu_us: Spread


class _Clock:
    """Adds up the time of each step over the batches of a round."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def timed(self, stage: str, step: Callable[[], _Result]) -> _Result:
        begun = time.thread_time()
        result = step()
        passed = time.thread_time() - begun
        self.seconds[stage] = self.seconds.get(stage, 0.0) + passed
        return result


class _Steps:
    """The steps of ``Fingerprinter``, taken apart."""

    def __init__(self, profile: Profile) -> None:
        self._weighting = weighting_named(profile.weighting)
        self._lexicon = Lexicon(profile.bits, feature_hash_named(profile.feature_hash), jieba_idf())
        self._runs = SegmentationCache(load_segmenter(profile.segmenter), self._lexicon)
        self._verifier = profile.verifier()

    def run(self, texts: Sequence[str], clock: _Clock) -> bytes:
        """Fingerprint a batch; return the fingerprints one after the other."""
        lexicon = self._lexicon
        normal = clock.timed("normalise", lambda: normalize_batch(texts))
        rows, sizes = clock.timed("segment", lambda: self._runs.rows(normal))
        counted = clock.timed("count", lambda: features.count(rows, sizes, lexicon))
        batch = clock.timed("weigh", lambda: features.weigh(counted, lexicon, self._weighting))
        scaled = clock.timed("weigh", lambda: scale(batch.weights, batch.bounds))
        packed = clock.timed("sum", lambda: self._sum(batch, scaled))
        if self._verifier is not None:
            sketched = Sketched(list(map(Content, texts)), batch, lexicon.short_hashes[batch.rows])
            sketches = self._verifier.verification.sketches
            clock.timed("sketch", lambda: sketches(sketched))
        clock.timed("digest", lambda: [content_digest(text) for text in normal])
        return packed

    def _sum(self, batch: features.FeatureBatch, scaled: np.ndarray) -> bytes:
        limits = batch.bounds.tolist()
        votes = self._lexicon.votes
        return pack(
            np.array(
                [
                    sums(votes.take(batch.rows[start:stop], axis=0), scaled[start:stop])
                    for start, stop in pairwise(limits)
                ]
            )
        )


def stage_times(profile: Profile, texts: Sequence[str], batch: int, rounds: int) -> list[StageTime]:
    """Measure the steps, on texts that are new to the lexicon and the memo in each round."""
    clocks = []
    for _ in range(rounds):
        steps = _Steps(profile)
        clock = _Clock()
        for start in range(0, len(texts), batch):
            steps.run(texts[start : start + batch], clock)
        clocks.append(clock)
    return [
        StageTime(
            stage,
            Spread.of(clock.seconds[stage] / len(texts) * _MICROSECONDS for clock in clocks),
        )
        for stage in clocks[0].seconds
    ]
