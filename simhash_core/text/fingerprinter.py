"""The fingerprinter: it turns a batch of texts into fingerprints by the settings of a profile."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from simhash_core.documents import Content
from simhash_core.errors import UsageError
from simhash_core.fingerprints.feature_hashes import feature_hash_named
from simhash_core.fingerprints.fingerprint import pack, scale, sums
from simhash_core.text.idf import IdfModel, jieba_idf
from simhash_core.text.lexicon import SEPARATOR, Lexicon
from simhash_core.text.normalization import normalize_batch, simplified, simplified_identity
from simhash_core.text.profiles import OF_SHINGLES, PASS, Profile, index_identity
from simhash_core.text.segmentation import is_feature, load_segmenter, word_of
from simhash_core.text.segmentation_cache import RUN_MEMORY_BYTES, SegmentationCache
from simhash_core.text.verification import WITH_BANDS, Sketched, shingles
from simhash_core.text.weighting import TermStatistics, Weighting, traits_identity, weighting_named
from simhash_core.text.word_lists import StopWords, UserDictionary
from simhash_core.verdicts import UndecidableReason


class Fingerprinted(NamedTuple):
    """A text's fingerprint, or why it is undecidable."""

    fingerprint: bytes  # empty exactly if undecidable
    # BLAKE2b-128 of the normalised text. For undecidable texts it alone decides, so it must be
    # impossible to construct two texts with the same digest.
    content_digest: bytes
    features: int
    undecidable: UndecidableReason | None
    sketch: bytes = b""  # empty if undecidable, or without verification
    passes: bool = False  # undecidable and not compared by content: always unique


class Printed(NamedTuple):
    """A fingerprint without a digest; it may have too few features."""

    fingerprint: bytes
    features: int
    undecidable: UndecidableReason | None
    sketch: bytes


class WeightedTerm(NamedTuple):
    term: str
    weight: float


FINGERPRINT_MEMORY_BYTES: Final = 16 << 20  # roughly 8,000 documents of 500 Chinese characters

# Python objects of a document and its fingerprint, with a sketch; measured with tracemalloc.
_OVERHEAD_BYTES: Final = 1_000
_CHARACTER_BYTES: Final = 2


class FingerprintMemo:
    """Fingerprints of recent documents, so that exact repeats are neither segmented nor sketched.

    There are two generations: when the young one is full, it replaces the old one. Keys are whole
    documents, so nobody can construct two documents with the same key.
    """

    def __init__(self, memory_bytes: int = FINGERPRINT_MEMORY_BYTES) -> None:
        """``memory_bytes`` bounds both generations together; 0 keeps nothing."""
        self._generation_bytes = memory_bytes // 2
        self._young: dict[Content, Fingerprinted] = {}
        self._old: dict[Content, Fingerprinted] = {}
        self._used_bytes = 0

    def get(self, content: Content) -> Fingerprinted | None:
        fingerprinted = self._young.get(content)
        if fingerprinted is None and self._old:
            fingerprinted = self._old.get(content)
            if fingerprinted is not None:
                self.keep(content, fingerprinted)
        return fingerprinted

    def keep(self, content: Content, fingerprinted: Fingerprinted) -> None:
        size = _OVERHEAD_BYTES + _CHARACTER_BYTES * len(content.text)
        if size > self._generation_bytes:
            return
        if self._used_bytes + size > self._generation_bytes:
            self._old, self._young, self._used_bytes = self._young, {}, 0
        self._young[content] = fingerprinted
        self._used_bytes += size


IDENTITY: Final = f"shingles-1/{shingles.SHINGLE_CHARACTERS}x{shingles.BINS}"


class ShinglePrints:
    """Fingerprints without segmentation: one bit of each bin of a sketch of shingles.

    A sketch keeps 4 bits of each bin's value; the fingerprint has a fifth bit (b-bit minwise
    hashing, Li & König 2010). Two texts differ in a bit with probability (1 − similarity) / 2. This
    takes a fifth of the time of weighted terms and works in any language, but it finds texts of one
    template near.

    Here a feature is a bin that has a shingle; a short text has as many as distinct shingles.
    """

    def __init__(self, profile: Profile) -> None:
        """Raises ``UsageError`` for a profile with settings that only apply to terms."""
        for name in ("idf", "user_dictionary", "stop_words"):
            if getattr(profile, name) is not None:
                raise UsageError(
                    f"{name} has no effect with fingerprint=shingles, which uses no terms"
                )
        self.made_with: Mapping[str, str] = {"fingerprint": IDENTITY}
        self.more: Mapping[str, str] = {}
        self._profile = profile
        self._bands = profile.scheme().sketch_bands

    def prints(self, contents: Sequence[Content], normal: Sequence[str]) -> list[Printed]:
        """``normal`` has the normalised texts."""
        profile, undecidable_by = self._profile, self._profile.undecidable
        texts = [content.text for content in contents]
        bare = shingles.bare_texts(texts, simplify=profile.fold_traditional)
        some = [text for text in bare if text]
        bins = shingles.bins_of(some)
        fingerprints = iter(np.packbits(shingles.fifth_bits(bins.filled, profile.bits), axis=1))
        sketches = iter(shingles.pack(bins.filled, self._bands))
        counts = iter(bins.counts.tolist())
        prints = []
        for text, own in zip(normal, bare, strict=True):
            if not own:
                prints.append(Printed(b"", 0, undecidable_by(text, 0), b""))
                continue
            fingerprint, sketch, features = next(fingerprints), next(sketches), next(counts)
            undecidable = undecidable_by(text, features)
            if undecidable is not None and not is_feature(text):
                features, undecidable = 0, undecidable_by(text, 0)
            prints.append(Printed(fingerprint.tobytes(), features, undecidable, sketch))
        return prints

    def weighted_terms(self, _content: Content, _normal: str) -> list[WeightedTerm]:
        return []


class TermCounts(NamedTuple):
    """The distinct terms of some texts; those of text ``i`` are bounds[i] to bounds[i + 1]."""

    rows: NDArray[np.int64]  # of the lexicon, ascending within a text
    counts: NDArray[np.float64]  # occurrences
    bounds: NDArray[np.int64]  # (texts + 1,)


class FeatureBatch(NamedTuple):
    """Weighted features; ``rows`` and ``bounds`` as in ``TermCounts``."""

    rows: NDArray[np.int64]
    weights: NDArray[np.float64]
    bounds: NDArray[np.int64]


def count(rows: NDArray[np.int64], sizes: NDArray[np.int64], lexicon: Lexicon) -> TermCounts:
    """Count how often each feature occurs in each text; ``rows`` are those of the texts' terms."""
    # Text and row become one number, so sorting puts equal features of a text side by side. 32 bits
    # are nearly always enough and take half the time.
    row_bits = len(lexicon.idf).bit_length()
    texts = np.arange(len(sizes) + 1) << row_bits
    pairs = np.repeat(texts[:-1], sizes) | rows
    if texts[-1] <= np.iinfo(np.int32).max:
        pairs = pairs.astype(np.int32)
    pairs.sort()
    is_first = np.ones(len(pairs), dtype=np.bool_)
    np.not_equal(pairs[1:], pairs[:-1], out=is_first[1:])
    starts = np.flatnonzero(is_first)
    counts = np.diff(starts, append=len(pairs))
    pairs = pairs[starts]
    distinct = (pairs & ((1 << row_bits) - 1)).astype(np.int64)
    kept = lexicon.is_feature[distinct]
    bounds = np.searchsorted(pairs[kept], texts)
    return TermCounts(distinct[kept], counts[kept].astype(np.float64), bounds)


def weigh(
    counted: TermCounts,
    lexicon: Lexicon,
    weighting: Weighting,
    in_title: NDArray[np.bool_] | None = None,
) -> FeatureBatch:
    """Weigh each feature; ``in_title`` is bool (features,), as in ``TermStatistics``."""
    rows, counts, bounds = counted
    statistics = TermStatistics(counts, lexicon.idf[rows], bounds)
    if weighting.traits_of is not None:
        statistics = statistics._replace(traits=lexicon.traits.take(rows))
    if in_title is not None:
        statistics = statistics._replace(in_title=in_title)
    return FeatureBatch(rows, weighting.weights(statistics), bounds)


def _shared(counted: TermCounts, others: TermCounts) -> NDArray[np.bool_]:
    """Return for each feature whether the other text with the same index has it too."""
    rows = max(int(part.rows.max(initial=0)) for part in (counted, others)) + 1
    keys, other_keys = (
        np.repeat(np.arange(len(part.bounds) - 1), np.diff(part.bounds)) * rows + part.rows
        for part in (counted, others)
    )
    return np.isin(keys, other_keys, assume_unique=True)


_NOTHING: Final = Content("")


class TermPrints:
    """SimHash over the weighted terms of a segmenter. Not thread-safe: holds lexicon and cache."""

    def __init__(self, profile: Profile, *, remember: bool = True) -> None:
        """Load segmenter and idf model; raises ``UsageError`` for invalid settings."""
        self._profile = profile
        self._bands = profile.scheme().sketch_bands
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
        self._runs = SegmentationCache(
            self._segmenter, self._lexicon, RUN_MEMORY_BYTES if remember else 0
        )
        self.more: dict[str, str] = {}  # parts of the identity that not every index has
        if self._weighting.titles:
            self.more["roles"] = traits_identity()
        if stop_words is not None:
            self.more["stop-words"] = stop_words.identity
        self.made_with: Mapping[str, str] = {
            "segmenter": self._segmenter.identity,
            "weighting": profile.weighting,
            "idf": idf.identity,
            "hash": profile.feature_hash,
        }

    def prints(self, contents: Sequence[Content], normal: Sequence[str]) -> list[Printed]:
        """``normal`` has the normalised texts."""
        rows, weights, bounds = self._features(normal, contents)
        scaled = scale(weights, bounds)
        # Attribute look-ups and numpy scalars would take most of the time for a short document.
        votes, limits = self._lexicon.votes, bounds.tolist()
        bit_sums = np.empty((len(normal), self._profile.bits), dtype=np.float32)
        for i, (start, stop) in enumerate(pairwise(limits)):
            bit_sums[i] = sums(votes.take(rows[start:stop], axis=0), scaled[start:stop])
        counts = [stop - start for start, stop in pairwise(limits)]
        undecidable = list(map(self._profile.undecidable, normal, counts))
        sketches = [b""] * len(contents)
        if self._verifier is not None:
            # Undecidable texts are compared with no candidate, so they need no sketch.
            decidable = [
                _NOTHING if outcome else content
                for content, outcome in zip(contents, undecidable, strict=True)
            ]
            sketches = self._verifier.verification.sketches(
                Sketched(
                    decidable,
                    weights,
                    self._lexicon.short_hashes[rows],
                    bounds,
                    self._bands,
                    self._profile.fold_traditional,
                )
            )
        size, packed = self._profile.bits // 8, pack(bit_sums)
        fingerprints = [packed[start : start + size] for start in range(0, len(packed), size)]
        return list(map(Printed, fingerprints, counts, undecidable, sketches))

    def weighted_terms(self, content: Content, normal: str) -> list[WeightedTerm]:
        """Return features and weights, summed over terms that differ only in their tag."""
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
        """Segment normalised texts, count their terms and weigh them."""
        lexicon, weighting = self._lexicon, self._weighting
        if not weighting.titles:
            return weigh(count(*self._runs.rows(normal), lexicon), lexicon, weighting)
        titles = normalize_batch(
            [content.title for content in contents], simplify=self._profile.fold_traditional
        )
        # Rows are valid only until the next call, so texts and titles are looked up together.
        rows, sizes = self._runs.rows([*normal, *titles])
        texts, of_texts = len(normal), int(sizes[: len(normal)].sum())
        counted = count(rows[:of_texts], sizes[:texts], lexicon)
        title_terms = count(rows[of_texts:], sizes[texts:], lexicon)
        return weigh(counted, lexicon, weighting, _shared(counted, title_terms))


def _word_lists(profile: Profile) -> tuple[IdfModel, UserDictionary | None, StopWords | None]:
    """Return the profile's word lists, folded like its texts; identities stay the same."""
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


CONTENT_DIGEST_SIZE: Final = 16  # bytes

# Characters in one batch: this bounds the memory of the columns, and they stay in the cache.
_BATCH_CHARACTERS: Final = 1 << 17


class Fingerprinter:
    """Makes fingerprints of texts. Not thread-safe: it holds a lexicon and caches."""

    def __init__(self, profile: Profile, *, remember: bool = True) -> None:
        """Raises ``UsageError``; without ``remember``, no result is reused."""
        self.profile = profile
        self.scheme = profile.scheme()
        profile.check_files()
        self.verifier = profile.verifier()
        self._prints = (
            ShinglePrints(profile)
            if profile.fingerprint == OF_SHINGLES
            else TermPrints(profile, remember=remember)
        )
        self._memo = FingerprintMemo(FINGERPRINT_MEMORY_BYTES if remember else 0)
        # This creates the tables now, so that no document waits for them.
        self._normal([])
        if profile.verify == WITH_BANDS:
            shingles.bare_texts([], simplify=profile.fold_traditional)
        more = dict(self._prints.more)
        if profile.fold_traditional:
            more["folding"] = simplified_identity()
        self.identity = index_identity(profile, self._prints.made_with, more)

    def fingerprint(self, content: Content | str) -> Fingerprinted:
        return self.fingerprint_batch([content])[0]

    def fingerprint_batch(self, contents: Sequence[Content | str]) -> list[Fingerprinted]:
        """Return fingerprints of original documents in order; a string is a document's text."""
        whole = [Content(item) if isinstance(item, str) else item for item in contents]
        remembered = list(map(self._memo.get, whole))
        if None not in remembered:
            return cast("list[Fingerprinted]", remembered)
        pairs = zip(whole, remembered, strict=True)
        new = list(dict.fromkeys([content for content, known in pairs if not known]))
        by_content: dict[Content, Fingerprinted] = {}
        for batch in _batches(new):
            by_content.update(zip(batch, self._fingerprint_batch(batch), strict=True))
        for content, each in by_content.items():
            self._memo.keep(content, each)
        return [known or by_content[each] for each, known in zip(whole, remembered, strict=True)]

    def weighted_terms(self, content: Content | str) -> list[WeightedTerm]:
        """Return features and weights, the heaviest first, without tags."""
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
                normal, self._prints.prints(contents, normal), strict=True
            )
        ]

    def _normal(self, contents: Sequence[Content]) -> list[str]:
        simplify = self.profile.fold_traditional
        return normalize_batch([content.text for content in contents], simplify=simplify)


def _batches(contents: Sequence[Content]) -> Iterator[Sequence[Content]]:
    """Split documents into batches of limited length; a longer document is a batch of its own."""
    begun, characters = 0, 0
    for i, content in enumerate(contents):
        if characters and characters + len(content.text) > _BATCH_CHARACTERS:
            yield contents[begun:i]
            begun, characters = i, 0
        characters += len(content.text)
    if begun < len(contents):
        yield contents[begun:]


def content_digest(normal: str) -> bytes:
    return hashlib.blake2b(normal.encode(), digest_size=CONTENT_DIGEST_SIZE).digest()
