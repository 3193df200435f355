"""The fingerprinter: a batch of texts to fingerprints, by the settings of one profile."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, cast

import numpy as np

from simhash_core.documents import Content
from simhash_core.fingerprints.feature_hashes import feature_hash_named
from simhash_core.fingerprints.fingerprint import pack, scale, sums
from simhash_core.text.features import FeatureBatch, extract
from simhash_core.text.fingerprint_memo import FingerprintMemo
from simhash_core.text.idf import jieba_idf
from simhash_core.text.lexicon import Lexicon
from simhash_core.text.normal_forms import normalize_batch
from simhash_core.text.normalization import NORMALIZATION, normalize
from simhash_core.text.profiles import Profile, index_identity
from simhash_core.text.run_memo import RunMemo
from simhash_core.text.segmentation import load_segmenter
from simhash_core.text.term_traits import traits_identity, word_of
from simhash_core.text.verification import Sketched
from simhash_core.text.weighting import weighting_named
from simhash_core.verdicts import UndecidableReason

CONTENT_DIGEST_SIZE: Final = 16

_NOTHING: Final = Content("")

# Texts done at one time: bounds the memory of the columns, and lets them stay in the cache.
_PORTION_CHARACTERS: Final = 1 << 17


class Fingerprinted(NamedTuple):
    """What is known of a text: ``fingerprint`` is empty exactly where ``undecidable`` is set.

    ``content_digest``: BLAKE2b-128 of the normalised text. It decides alone for undecidable
    texts, so it is one that nobody can collide on purpose. ``sketch``: what candidates are
    confirmed by; empty where the profile confirms none, and for undecidable texts.
    """

    fingerprint: bytes
    content_digest: bytes
    features: int
    undecidable: UndecidableReason | None
    sketch: bytes = b""


class WeightedTerm(NamedTuple):
    """A term of a text and its weight, for explanations."""

    term: str
    weight: float


class Fingerprinter:
    """Texts to fingerprints. Holds a lexicon and memos, so one fingerprinter serves one thread."""

    def __init__(self, profile: Profile) -> None:
        """Load segmenter and idf model; raises ``UsageError`` for what the profile gets wrong."""
        self.profile = profile
        self.scheme = profile.scheme()
        profile.check_files()
        self.confirmation = profile.confirmation()
        self._segmenter = load_segmenter(profile.segmenter, profile.user_dictionary)
        self._weighting = weighting_named(profile.weighting)
        idf = profile.idf or jieba_idf()
        stop_words = profile.stop_words
        self._lexicon = Lexicon(
            profile.bits,
            feature_hash_named(profile.feature_hash),
            idf,
            () if stop_words is None else stop_words.words,
            traits_of=self._weighting.traits_of,
        )
        self._memo = FingerprintMemo[Fingerprinted]()
        self._runs = RunMemo(self._segmenter, self._lexicon)
        normalize_batch(())  # makes its table now, so that no document waits for it
        more = {}
        if self._weighting.titles:
            more["roles"] = traits_identity()
        if stop_words is not None:
            more["stop-words"] = stop_words.identity
        self.identity = index_identity(
            profile, self._segmenter.identity, idf.identity, NORMALIZATION, more
        )

    def fingerprint(self, content: Content | str) -> Fingerprinted:
        """Return the fingerprint of one document as it came (not yet normalised)."""
        return self.fingerprint_batch([content])[0]

    def fingerprint_batch(self, contents: Sequence[Content | str]) -> list[Fingerprinted]:
        """Return the fingerprints of a batch of documents as they came, in order.

        A string stands for a document of which nothing but the text is known.
        """
        whole = [Content(item) if isinstance(item, str) else item for item in contents]
        found = list(map(self._memo.get, whole))
        if None not in found:
            return cast("list[Fingerprinted]", found)
        new = list(
            dict.fromkeys([each for each, made in zip(whole, found, strict=True) if not made])
        )
        made: dict[Content, Fingerprinted] = {}
        for portion in _portions(new):
            made.update(zip(portion, self._fingerprint_portion(portion), strict=True))
        for content, each in made.items():
            self._memo.keep(content, each)
        return [known or made[each] for each, known in zip(whole, found, strict=True)]

    def weighted_terms(self, content: Content | str) -> list[WeightedTerm]:
        """Return the features of a document with their weights, heaviest first.

        Terms that differ in their tag alone are one here, as their weights add up.
        """
        whole = Content(content) if isinstance(content, str) else content
        normal = normalize(whole.text)
        rows, weights, _ = self._features([normal], [whole])
        by_row = dict(zip(rows.tolist(), weights.tolist(), strict=True))
        by_word: dict[str, float] = {}
        for term in dict.fromkeys(self._segmenter.cut(normal)):
            row = self._lexicon.get(term)
            if row in by_row:
                word = word_of(term)
                by_word[word] = by_word.get(word, 0.0) + by_row[row]
        pairs = [WeightedTerm(word, weight) for word, weight in by_word.items()]
        return sorted(pairs, key=lambda pair: (-pair.weight, pair.term))

    def _fingerprint_portion(self, contents: Sequence[Content]) -> list[Fingerprinted]:
        normal = normalize_batch([content.text for content in contents])
        features = self._features(normal, contents)
        rows, weights, bounds = features
        scaled = scale(weights, bounds)
        # Local names and plain integers: attribute look-ups and numpy scalars are what a short
        # document would mostly pay for.
        votes, limits = self._lexicon.votes, bounds.tolist()
        bit_sums = np.empty((len(normal), self.profile.bits), dtype=np.float32)
        for i, (start, stop) in enumerate(pairwise(limits)):
            bit_sums[i] = sums(votes.take(rows[start:stop], axis=0), scaled[start:stop])
        undecidable = [
            self._judge(text, stop - start)
            for text, (start, stop) in zip(normal, pairwise(limits), strict=True)
        ]
        size = self.profile.bits // 8
        packed = pack(bit_sums)
        sketches = [b""] * len(contents)
        if self.confirmation is not None:
            # A sketch of a text that no candidate is compared with would be made for nothing.
            decidable = [
                _NOTHING if outcome else content
                for content, outcome in zip(contents, undecidable, strict=True)
            ]
            sketches = self.confirmation.verification.sketches(
                Sketched(decidable, features, self._lexicon.short_hashes[rows], self.scheme.bands)
            )
        return [
            undecidable[i]
            or Fingerprinted(
                packed[i * size : (i + 1) * size],
                content_digest(text),
                stop - start,
                None,
                sketches[i],
            )
            for i, (text, (start, stop)) in enumerate(zip(normal, pairwise(limits), strict=True))
        ]

    def _features(self, normal: Sequence[str], contents: Sequence[Content]) -> FeatureBatch:
        titles: Sequence[str] = ()
        if self._weighting.titles:
            titles = normalize_batch([content.title for content in contents])
        return extract(normal, self._runs, self._lexicon, self._weighting, titles)

    def _judge(self, normal: str, features: int) -> Fingerprinted | None:
        """Return the undecidable outcome for a text with too little in it, else None."""
        profile = self.profile
        if features >= profile.min_features:
            return None
        # Many characters, few words: a sketch of its shingles says enough of such a text.
        if (
            profile.long_characters
            and features >= profile.min_features_of_long
            and len(normal) - normal.count(" ") >= profile.long_characters
        ):
            return None
        reason = UndecidableReason.TOO_FEW_FEATURES
        if features == 0:
            reason = UndecidableReason.NO_FEATURES if normal else UndecidableReason.EMPTY
        return Fingerprinted(b"", content_digest(normal), features, reason)


def _portions(contents: Sequence[Content]) -> Iterator[Sequence[Content]]:
    """Split documents where one more would make a portion too long; a longer one stands alone."""
    begun, characters = 0, 0
    for i, content in enumerate(contents):
        if characters and characters + len(content.text) > _PORTION_CHARACTERS:
            yield contents[begun:i]
            begun, characters = i, 0
        characters += len(content.text)
    if begun < len(contents):
        yield contents[begun:]


def content_digest(normal: str) -> bytes:
    """Return the digest of a normalised text, 16 bytes."""
    return hashlib.blake2b(normal.encode(), digest_size=CONTENT_DIGEST_SIZE).digest()
