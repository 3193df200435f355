"""Profiles, the named settings that decide which documents are near, and the index identity.

``classic`` is the published method: 64 bits and distance 3, guaranteed to miss no near pair.
``wide`` compares documents that share a band of a sketch of character shingles. They are near if
the sketches and the fingerprints of 256 bits are similar enough, each and in the mean. ``wide``
finds more near pairs with fewer errors and few candidates in an index of any size, but needs about
five times the state. ``quick`` does the same with shingles alone, without segmentation. It takes a
fifth of the time, but is worse at telling texts of one template apart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

import msgspec

from simhash_core.errors import UnknownNameError, UsageError
from simhash_core.fingerprints.bands import PAIRS, TRIPLES, TRIPLES_MIN
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.text.idf import IdfModel
from simhash_core.text.normalization import NORMALIZATION
from simhash_core.text.segmentation import WITHOUT_DICTIONARY
from simhash_core.text.verification import NO_VERIFICATION, WITH_BANDS, Verifier, verifier_of
from simhash_core.text.word_lists import StopWords, UserDictionary
from simhash_core.verdicts import UndecidableReason
from simhash_core.window import UNITS_MS, format_duration

_DIGEST_BYTES: Final = 6


@lru_cache(maxsize=16)
def index_digest(identity: str) -> str:
    """Return the short name of an index identity, for records, metrics, log lines and ``--json``.

    It is 12 hexadecimal digits of BLAKE2b-48.
    """
    return hashlib.blake2b(identity.encode(), digest_size=_DIGEST_BYTES).hexdigest()


IDENTITY_VERSION: Final = 1

# What happens to a document with an id that is already in the index: it is compared like any other,
# or it replaces the earlier one.
COMPARE: Final = "compare"
REPLACE: Final = "replace"
SAME_ID: Final = (COMPARE, REPLACE)

# What happens to a text that is too short to be compared: exact repeats are duplicates, or every
# text is unique.
EXACT: Final = "exact"
PASS: Final = "pass"  # noqa: S105 - no password
SHORT_TEXTS: Final = (EXACT, PASS)

# The source of a fingerprint: weighted terms, or bits of a sketch of shingles.
OF_TERMS: Final = "terms"
OF_SHINGLES: Final = "shingles"
FINGERPRINTS: Final = (OF_TERMS, OF_SHINGLES)

USUAL_LATENESS_MS: Final = UNITS_MS["d"]


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of an index."""

    bits: int
    blocks: int  # block_bits, cuts and bands: see ``BlockScheme``
    block_bits: int
    distance: int
    segmenter: str = "words"  # segmenter, weighting and feature hash apply to terms only
    weighting: str = "tfidf-sublinear"
    feature_hash: str = "xxh3"
    min_features: int = 27  # a text with fewer distinct features is undecidable
    # Texts with at least so many characters without blanks need only half the features; 0: none.
    long_characters: int = 0
    cuts: int = 1
    bands: int = 0
    band_bins: int = TRIPLES  # bins of the sketch in a band
    fingerprint: str = OF_TERMS  # one of ``FINGERPRINTS``
    verify: str = NO_VERIFICATION  # name in ``simhash_core.text.verification``
    verify_at: float = 0.0  # the minimum similarity
    mean_at: float = 0.0  # minimum mean of the similarity and 1 − distance / bits; 0: none
    idf: IdfModel | None = None  # None: jieba's table
    user_dictionary: UserDictionary | None = None
    stop_words: StopWords | None = None
    window: int | None = None  # maximum time between near documents in milliseconds; None: any
    # Maximum milliseconds by which a document may be behind the latest one and still match all
    # documents in its window.
    lateness: int = USUAL_LATENESS_MS
    fold_traditional: bool = False  # fold traditional Chinese characters to simplified ones
    short_texts: str = EXACT  # one of ``SHORT_TEXTS``
    same_id: str = COMPARE  # one of ``SAME_ID``
    scoped: bool = False  # documents have scopes

    @property
    def min_features_of_long(self) -> int:
        """The minimum number of features of a text with ``long_characters``: half, rounded up."""
        return (self.min_features + 1) // 2

    def undecidable(self, normal: str, features: int) -> UndecidableReason | None:
        """Return why a normalised text with so many features cannot be compared; None: it can."""
        if features >= self.min_features:
            return None
        # With many characters but few words, a sketch of the text's shingles says enough about it.
        if (
            self.long_characters
            and features >= self.min_features_of_long
            and len(normal) - normal.count(" ") >= self.long_characters
        ):
            return None
        if features == 0:
            return UndecidableReason.NO_FEATURES if normal else UndecidableReason.EMPTY
        return UndecidableReason.TOO_FEW_FEATURES

    @property
    def replaces_expired(self) -> bool:
        """Whether a document may replace one that has expired, of which nothing is known."""
        return self.same_id == REPLACE and self.window is not None

    def scheme(self) -> BlockScheme:
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
                f"{self.verify}: set verify to {WITH_BANDS}, or choose another profile"
            )
        if self.bands and self.verify != WITH_BANDS:
            raise UsageError(
                f"bands is {self.bands}, which needs the sketches of {WITH_BANDS}; verify is "
                f"{self.verify}",
                setting="bands",
                hint="set bands to 0, and blocks to 1 or more",
            )
        if self.band_bins == TRIPLES and 0 < self.bands < TRIPLES_MIN:
            raise UsageError(
                f"bands is {self.bands}: so few bands of three bins would have the same bins",
                setting="bands",
                hint=f"set bands to 0 or to {TRIPLES_MIN} or more, or set band_bins to {PAIRS}",
            )
        if self.mean_at and self.verify == NO_VERIFICATION:
            raise UsageError(
                f"mean_at is {self.mean_at}, which needs the similarity of a second check; verify "
                f"is {self.verify}",
                setting="mean_at",
                hint="set mean_at to 0, or set verify",
            )
        return self.block_scheme()

    def block_scheme(self) -> BlockScheme:
        """Return the scheme without a look at the other settings."""
        return BlockScheme(
            self.bits,
            self.blocks,
            self.distance,
            self.block_bits,
            self.cuts,
            self.bands,
            self.band_bins,
        )

    def check_files(self) -> None:
        """Raises ``UsageError`` if idf model or user dictionary does not fit the segmenter."""
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
        """Return the verifier, if any; raises ``UnknownNameError`` and ``UsageError``."""
        return verifier_of(self.verify, self.verify_at, self.mean_at, self.bits)


PROFILES: Final[Mapping[str, Profile]] = {
    "classic": Profile(bits=64, blocks=4, block_bits=16, distance=3),
    "wide": Profile(
        bits=256,
        blocks=0,
        block_bits=16,
        bands=27,
        distance=72,
        long_characters=120,
        verify=WITH_BANDS,
        verify_at=0.505,
        mean_at=0.68,
    ),
    "quick": Profile(
        bits=256,
        blocks=0,
        block_bits=16,
        bands=27,
        distance=80,
        fingerprint=OF_SHINGLES,
        min_features=96,
        verify=WITH_BANDS,
        verify_at=0.518,
    ),
}
DEFAULT_PROFILE: Final = "wide"

# The number of blocks for documents of 256 bits whose sketches have no bands.
BLOCKS_INSTEAD_OF_BANDS: Final[Mapping[str, int]] = MappingProxyType(
    {"bands": 0, "blocks": 16, "block_bits": 16, "cuts": 2}
)


def profile_named(name: str) -> Profile:
    """Raises ``UnknownNameError``."""
    if name not in PROFILES:
        raise UnknownNameError("profile", name, PROFILES)
    return PROFILES[name]


def index_identity(profile: Profile, made_with: Mapping[str, str], more: Mapping[str, str]) -> str:
    """Return the settings that must be equal for comparable fingerprints and equal verdicts.

    ``more`` has parts that not every index has.
    """
    scheme, verifier = profile.scheme(), profile.verifier()
    parts: dict[str, object] = {
        "bits": profile.bits,
        "blocks": _blocks(scheme),
        "distance": profile.distance,
        **made_with,
        "normalization": NORMALIZATION,
        "min-features": _features_needed(profile),
    }
    if scheme.bands:
        parts["bands"] = f"{scheme.bands}x{profile.band_bins}"
    parts |= more
    if verifier is not None:
        parts["verify"] = verifier.identity
        if verifier.mean_at:
            parts["mean"] = f"{verifier.mean_at:g}"
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
