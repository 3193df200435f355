"""Fingerprints of weighted terms: SimHash of what a segmenter makes of a text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from simhash_core.documents import Content
from simhash_core.fingerprints.feature_hashes import feature_hash_named
from simhash_core.fingerprints.fingerprint import pack, scale, sums
from simhash_core.text.features import FeatureBatch, extract
from simhash_core.text.fingerprinted import Judge, Printed, WeightedTerm
from simhash_core.text.idf import IdfModel, jieba_idf
from simhash_core.text.lexicon import Lexicon
from simhash_core.text.normal_forms import normalize_batch
from simhash_core.text.profiles import Profile
from simhash_core.text.run_memo import RUN_MEMORY_BYTES, RunMemo
from simhash_core.text.segmentation import load_segmenter
from simhash_core.text.simplified import simplified
from simhash_core.text.stop_words import StopWords
from simhash_core.text.term_codes import SEPARATOR
from simhash_core.text.term_traits import traits_identity, word_of
from simhash_core.text.user_dictionary import UserDictionary
from simhash_core.text.verification import Sketched
from simhash_core.text.weighting import weighting_named

_NOTHING: Final = Content("")


class TermPrints:
    """Holds a lexicon and a memo of runs, so it serves one thread."""

    def __init__(self, profile: Profile, *, remember: bool = True) -> None:
        """Load segmenter and idf model; raises ``UsageError`` for what the profile gets wrong.

        ``remember``: whether runs that were segmented are remembered.
        """
        self._profile = profile
        self._bands = profile.scheme().bands
        self._verifier = profile.verifier()
        idf, user_dictionary, stop_words = _word_lists(profile)
        self._segmenter = load_segmenter(profile.segmenter, user_dictionary)
        self._weighting = weighting_named(profile.weighting)
        self._lexicon = Lexicon(
            profile.bits,
            feature_hash_named(profile.feature_hash),
            idf,
            () if stop_words is None else stop_words.words,
            traits_of=self._weighting.traits_of,
        )
        self._runs = RunMemo(self._segmenter, self._lexicon, RUN_MEMORY_BYTES if remember else 0)
        more = {}
        if self._weighting.titles:
            more["roles"] = traits_identity()
        if stop_words is not None:
            more["stop-words"] = stop_words.identity
        self._more = more
        self._made_with = {
            "segmenter": self._segmenter.identity,
            "weighting": profile.weighting,
            "idf": idf.identity,
            "hash": profile.feature_hash,
        }

    @property
    def made_with(self) -> Mapping[str, str]:
        """What fingerprints are made with, by its name in the index identity."""
        return self._made_with

    @property
    def more(self) -> Mapping[str, str]:
        """The same, of what only some indexes have."""
        return self._more

    def prints(
        self, contents: Sequence[Content], normal: Sequence[str], judge: Judge
    ) -> list[Printed]:
        """Return what is made of documents; ``normal``: their normalised texts."""
        features = self._features(normal, contents)
        rows, weights, bounds = features
        scaled = scale(weights, bounds)
        # Local names and plain integers: attribute look-ups and numpy scalars are what a short
        # document would mostly pay for.
        votes, limits = self._lexicon.votes, bounds.tolist()
        bit_sums = np.empty((len(normal), self._profile.bits), dtype=np.float32)
        for i, (start, stop) in enumerate(pairwise(limits)):
            bit_sums[i] = sums(votes.take(rows[start:stop], axis=0), scaled[start:stop])
        counts = [stop - start for start, stop in pairwise(limits)]
        undecidable = list(map(judge, normal, counts))
        sketches = [b""] * len(contents)
        if self._verifier is not None:
            # A sketch of a text that no candidate is compared with would be made for nothing.
            decidable = [
                _NOTHING if outcome else content
                for content, outcome in zip(contents, undecidable, strict=True)
            ]
            sketches = self._verifier.verification.sketches(
                Sketched(
                    decidable,
                    features,
                    self._lexicon.short_hashes[rows],
                    self._bands,
                    self._profile.fold_traditional,
                )
            )
        size, packed = self._profile.bits // 8, pack(bit_sums)
        fingerprints = [packed[start : start + size] for start in range(0, len(packed), size)]
        return list(map(Printed, fingerprints, counts, undecidable, sketches))

    def weighted_terms(self, content: Content, normal: str) -> list[WeightedTerm]:
        """Return the features of a document with their weights, in the order of the text.

        Terms that differ in their tag alone are one here, as their weights add up.
        """
        rows, weights, _ = self._features([normal], [content])
        by_row = dict(zip(rows.tolist(), weights.tolist(), strict=True))
        by_word: dict[str, float] = {}
        for term in dict.fromkeys(self._segmenter.cut(normal)):
            row = self._lexicon.get(term)
            if row in by_row:
                word = word_of(term)
                by_word[word] = by_word.get(word, 0.0) + by_row[row]
        return [WeightedTerm(word, weight) for word, weight in by_word.items()]

    def _features(self, normal: Sequence[str], contents: Sequence[Content]) -> FeatureBatch:
        titles: Sequence[str] = ()
        if self._weighting.titles:
            titles = normalize_batch(
                [content.title for content in contents], simplify=self._profile.fold_traditional
            )
        return extract(normal, self._runs, self._lexicon, self._weighting, titles)


def _word_lists(profile: Profile) -> tuple[IdfModel, UserDictionary | None, StopWords | None]:
    """Return what the profile says of single words, spelled as its normalised texts are.

    Identities are those of the lists as they came: the normalisation is in the identity as well.
    """
    idf, words, stop_words = profile.idf or jieba_idf(), profile.user_dictionary, profile.stop_words
    if not profile.fold_traditional:
        return idf, words, stop_words
    idf = idf._replace(table=dict(zip(_simplified(idf.table), idf.table.values(), strict=True)))
    if words is not None:
        texts = _simplified([word.text for word in words.words])
        words = words._replace(
            words=tuple(
                word._replace(text=text) for word, text in zip(words.words, texts, strict=True)
            )
        )
    if stop_words is not None:
        stop_words = stop_words._replace(words=frozenset(_simplified(stop_words.words)))
    return idf, words, stop_words


def _simplified(words: Iterable[str]) -> list[str]:
    return simplified(SEPARATOR.join(words)).split(SEPARATOR)
