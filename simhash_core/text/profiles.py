"""Profiles: everything that decides what is near, under one name; and the index identity.

``classic`` is the published method: 64 bits, distance 3, a guarantee that no near pair is missed.
``wide`` compares documents that share a band of a sketch of their character shingles, and takes
those for near that agree by the sketch and by 256 bits of fingerprint: it finds more and errs less,
with a few candidates however large the index, for about five times the state. ``quick`` is the same
by shingles alone, without segmentation: a fifth of its time, and less able to tell texts of one
template apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from simhash_core.durations import UNITS_MS, format_duration
from simhash_core.errors import UnknownNameError, UsageError
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.text.idf import IdfModel
from simhash_core.text.segmentation import WITHOUT_DICTIONARY
from simhash_core.text.stop_words import StopWords
from simhash_core.text.user_dictionary import UserDictionary
from simhash_core.text.verification import (
    NO_VERIFICATION,
    WITH_BANDS,
    Verifier,
    verifier_of,
)
from simhash_core.text.verification.shingles import BINS_OF_BAND

IDENTITY_VERSION: Final = 1

COMPARE: Final = "compare"
REPLACE: Final = "replace"
SAME_ID: Final = (COMPARE, REPLACE)
"""What a document with an id that is already in the index means: it is compared as any other is, or
it takes the place of the entry with its id."""

EXACT: Final = "exact"
PASS: Final = "pass"  # noqa: S105 - no password
SHORT_TEXTS: Final = (EXACT, PASS)
"""What becomes of a text that is too short to be compared: its exact repeats are duplicates, or it
is unique, as often as it comes."""

OF_TERMS: Final = "terms"
OF_SHINGLES: Final = "shingles"
FINGERPRINTS: Final = (OF_TERMS, OF_SHINGLES)
"""What a fingerprint is made of: weighted terms, or bits of a sketch of shingles."""

USUAL_LATENESS_MS: Final = UNITS_MS["d"]


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of an index.

    ``blocks``, ``block_bits``, ``cuts``, ``bands``: as of ``BlockScheme``. ``min_features``:
    distinct features below which a text is undecidable; ``long_characters``: characters, blanks
    left out, from which half of them are enough, 0 for none. ``fingerprint``: one of
    ``FINGERPRINTS``; segmenter, weighting and hash are of terms. ``verify``: what confirms
    candidates, and ``verify_at`` how far two documents must agree
    (``simhash_core.text.verification``).
    ``idf``: jieba's table unless given. ``user_dictionary`` and ``stop_words``: none unless given.
    ``window``: how far apart the times of near documents are at most, milliseconds; None: any time.
    ``lateness``: how far behind the latest documents a document may be and still be compared with
    all that are within its window, milliseconds. ``same_id``: one of ``SAME_ID``. ``scoped``:
    whether documents have scopes. ``fold_traditional``: whether traditional Chinese characters are
    taken for their simplified forms. ``short_texts``: one of ``SHORT_TEXTS``.
    """

    bits: int
    blocks: int
    block_bits: int
    distance: int
    segmenter: str = "words"
    weighting: str = "tfidf-sublinear"
    feature_hash: str = "xxh3"
    min_features: int = 27
    long_characters: int = 0
    cuts: int = 1
    bands: int = 0
    fingerprint: str = OF_TERMS
    verify: str = NO_VERIFICATION
    verify_at: float = 0.0
    idf: IdfModel | None = None
    user_dictionary: UserDictionary | None = None
    stop_words: StopWords | None = None
    window: int | None = None
    lateness: int = USUAL_LATENESS_MS
    fold_traditional: bool = False
    short_texts: str = EXACT
    same_id: str = COMPARE
    scoped: bool = False

    @property
    def min_features_of_long(self) -> int:
        """The least number of features of a text of ``long_characters``: half, rounded up."""
        return (self.min_features + 1) // 2

    def scheme(self) -> BlockScheme:
        """Return the block scheme; raises ``UsageError`` for an invalid one."""
        if self.min_features < 1:
            raise UsageError(
                f"min_features is {self.min_features}",
                setting="min_features",
                hint="it must be 1 or more",
            )
        if self.fingerprint not in FINGERPRINTS:
            raise UnknownNameError("fingerprint", self.fingerprint, FINGERPRINTS)
        if self.fingerprint == OF_SHINGLES and self.verify != WITH_BANDS:
            raise UsageError(
                f"fingerprint is {OF_SHINGLES}, which needs their sketches; verify is "
                f"{self.verify}: set verify to {WITH_BANDS}, or take another profile"
            )
        if self.bands and self.verify != WITH_BANDS:
            raise UsageError(
                f"bands is {self.bands}, which needs the sketches of {WITH_BANDS}; verify is "
                f"{self.verify}",
                setting="bands",
                hint="set bands to 0, and blocks to 1 or more",
            )
        return BlockScheme(
            self.bits, self.blocks, self.distance, self.block_bits, self.cuts, self.bands
        )

    def check_files(self) -> None:
        """Raise ``UsageError`` where idf model or user dictionary do not fit the segmenter."""
        if self.idf is not None and self.idf.segmenter not in {"", self.segmenter}:
            raise UsageError(
                f"idf model {self.idf.identity} was trained on terms of the segmenter "
                f"{self.idf.segmenter!r}, the index has {self.segmenter!r}",
                setting="idf",
                hint="train one with it, or set index.segmenter",
            )
        if self.user_dictionary is not None and self.segmenter in WITHOUT_DICTIONARY:
            raise UsageError(
                f"user_dictionary has no effect with the segmenter {self.segmenter!r}",
                setting="user_dictionary",
            )

    def verifier(self) -> Verifier | None:
        """Return what confirms candidates, None where nothing does.

        Raises ``UnknownNameError`` and ``UsageError`` for invalid values.
        """
        return verifier_of(self.verify, self.verify_at)


PROFILES: Final[Mapping[str, Profile]] = {
    "classic": Profile(bits=64, blocks=4, block_bits=16, distance=3),
    "wide": Profile(
        bits=256,
        blocks=0,
        block_bits=16,
        bands=12,
        distance=68,
        long_characters=120,
        verify=WITH_BANDS,
        verify_at=0.518,
    ),
    "quick": Profile(
        bits=256,
        blocks=0,
        block_bits=16,
        bands=12,
        distance=80,
        fingerprint=OF_SHINGLES,
        min_features=96,
        verify=WITH_BANDS,
        verify_at=0.518,
    ),
}
DEFAULT_PROFILE: Final = "wide"

BLOCKS_INSTEAD_OF_BANDS: Final[Mapping[str, int]] = MappingProxyType(
    {"bands": 0, "blocks": 16, "block_bits": 16, "cuts": 2}
)
"""How candidates are found among documents of 256 bits, if no sketches have bands."""


def profile_named(name: str) -> Profile:
    """Return the profile called ``name``.

    Raises ``UnknownNameError`` for a name that is not in ``PROFILES``.
    """
    if name not in PROFILES:
        raise UnknownNameError("profile", name, PROFILES)
    return PROFILES[name]


def index_identity(
    profile: Profile,
    made_with: Mapping[str, str],
    normalization: str,
    more: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return what must be equal for two fingerprints to be comparable, and two verdicts one rule.

    ``made_with``: what fingerprints are made of, part by part; ``normalization``: its name and
    version; ``more``: parts that only some indexes have. The distance and the least number of
    features are part of it as well: "near" must be one relation for all shards and for all entries
    of an index, or two uniques could be near by the rule of the day.
    """
    scheme, verifier = profile.scheme(), profile.verifier()
    parts: dict[str, object] = {
        "bits": profile.bits,
        "blocks": _blocks(scheme),
        "distance": profile.distance,
        **made_with,
        "normalization": normalization,
        "min-features": _features_needed(profile),
    }
    if scheme.bands:
        parts["bands"] = f"{scheme.bands}x{BINS_OF_BAND}"
    parts |= more
    if verifier is not None:
        parts["verify"] = verifier.identity
    if profile.window is not None:
        parts["window"] = format_duration(profile.window)
        parts["lateness"] = format_duration(profile.lateness)
    if profile.same_id != COMPARE:
        parts["same-id"] = profile.same_id
    if profile.scoped:
        parts["scoped"] = "yes"
    if profile.short_texts != EXACT:
        parts["short-texts"] = profile.short_texts
    return f"firstseen-index/{IDENTITY_VERSION} " + " ".join(f"{k}={v}" for k, v in parts.items())


def _features_needed(profile: Profile) -> str:
    if not profile.long_characters:
        return str(profile.min_features)
    return f"{profile.min_features}/{profile.min_features_of_long}@{profile.long_characters}"


def _blocks(scheme: BlockScheme) -> str:
    if not scheme.blocks:
        return "0"
    return f"{scheme.blocks}x{scheme.block_bits}" + ("x2" if scheme.cuts > 1 else "")
