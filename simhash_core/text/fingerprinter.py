"""The fingerprinter: a batch of texts to fingerprints, by the settings of one profile."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final, cast

from simhash_core.documents import Content
from simhash_core.text.fingerprint_memo import FINGERPRINT_MEMORY_BYTES, FingerprintMemo
from simhash_core.text.fingerprinted import Fingerprinted, WeightedTerm
from simhash_core.text.normal_forms import normalize_batch
from simhash_core.text.normalization import NORMALIZATION
from simhash_core.text.profiles import OF_SHINGLES, PASS, Profile, index_identity
from simhash_core.text.shingle_prints import ShinglePrints
from simhash_core.text.simplified import simplified_identity
from simhash_core.text.term_prints import TermPrints
from simhash_core.verdicts import UndecidableReason

__all__ = [
    "CONTENT_DIGEST_SIZE",
    "Fingerprinted",
    "Fingerprinter",
    "WeightedTerm",
    "content_digest",
]

CONTENT_DIGEST_SIZE: Final = 16

# Texts done at one time: bounds the memory of the columns, and lets them stay in the cache.
_BATCH_CHARACTERS: Final = 1 << 17


class Fingerprinter:
    """Texts to fingerprints. Holds a lexicon and memos, so one fingerprinter serves one thread."""

    def __init__(self, profile: Profile, *, remember: bool = True) -> None:
        """Load segmenter and idf model; raises ``UsageError`` for what the profile gets wrong.

        Without ``remember`` the work of earlier texts is not used again: fingerprints are the same.
        """
        self.profile = profile
        self.scheme = profile.scheme()
        profile.check_files()
        self.verifier = profile.verifier()
        self._prints = (
            ShinglePrints(profile)
            if profile.fingerprint == OF_SHINGLES
            else TermPrints(profile, remember=remember)
        )
        self._memo = FingerprintMemo[Fingerprinted](FINGERPRINT_MEMORY_BYTES if remember else 0)
        self._normal([])  # makes its table now, so that no document waits for it
        more = dict(self._prints.more)
        if profile.fold_traditional:
            more["folding"] = simplified_identity()
        self.identity = index_identity(profile, self._prints.made_with, NORMALIZATION, more)

    def fingerprint(self, content: Content | str) -> Fingerprinted:
        """Return the fingerprint of one document as it came (not yet normalised)."""
        return self.fingerprint_batch([content])[0]

    def fingerprint_batch(self, contents: Sequence[Content | str]) -> list[Fingerprinted]:
        """Return the fingerprints of a batch of documents as they came, in order.

        A string stands for a document of which nothing but the text is known.
        """
        whole = [Content(item) if isinstance(item, str) else item for item in contents]
        remembered = list(map(self._memo.get, whole))
        if None not in remembered:
            return cast("list[Fingerprinted]", remembered)
        new = list(
            dict.fromkeys(
                [each for each, known in zip(whole, remembered, strict=True) if not known]
            )
        )
        by_content: dict[Content, Fingerprinted] = {}
        for batch in _batches(new):
            by_content.update(zip(batch, self._fingerprint_batch(batch), strict=True))
        for content, each in by_content.items():
            self._memo.keep(content, each)
        return [known or by_content[each] for each, known in zip(whole, remembered, strict=True)]

    def weighted_terms(self, content: Content | str) -> list[WeightedTerm]:
        """Return the features of a document with their weights, heaviest first.

        Terms that differ in their tag alone are one here, as their weights add up.
        """
        whole = Content(content) if isinstance(content, str) else content
        pairs = self._prints.weighted_terms(whole, self._normal([whole])[0])
        return sorted(pairs, key=lambda pair: (-pair.weight, pair.term))

    def _fingerprint_batch(self, contents: Sequence[Content]) -> list[Fingerprinted]:
        normal, passes = self._normal(contents), self.profile.short_texts == PASS
        return [
            Fingerprinted(b"", content_digest(text), features, undecidable, passes=passes)
            if undecidable
            else Fingerprinted(fingerprint, content_digest(text), features, None, sketch)
            for text, (fingerprint, features, undecidable, sketch) in zip(
                normal, self._prints.prints(contents, normal, self._judge), strict=True
            )
        ]

    def _normal(self, contents: Sequence[Content]) -> list[str]:
        simplify = self.profile.fold_traditional
        return normalize_batch([content.text for content in contents], simplify=simplify)

    def _judge(self, normal: str, features: int) -> UndecidableReason | None:
        """Return why a text has too little in it to be compared, None where it has enough."""
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
        if features == 0:
            return UndecidableReason.NO_FEATURES if normal else UndecidableReason.EMPTY
        return UndecidableReason.TOO_FEW_FEATURES


def _batches(contents: Sequence[Content]) -> Iterator[Sequence[Content]]:
    """Split documents where one more would make a batch too long; a longer one stands alone."""
    begun, characters = 0, 0
    for i, content in enumerate(contents):
        if characters and characters + len(content.text) > _BATCH_CHARACTERS:
            yield contents[begun:i]
            begun, characters = i, 0
        characters += len(content.text)
    if begun < len(contents):
        yield contents[begun:]


def content_digest(normal: str) -> bytes:
    """Return the digest of a normalised text, 16 bytes."""
    return hashlib.blake2b(normal.encode(), digest_size=CONTENT_DIGEST_SIZE).digest()
