"""Texts to fingerprints."""

from __future__ import annotations

from collections.abc import Iterable

from simhash_core.fingerprints.fingerprint import distance_bits
from simhash_core.text import fingerprinter as core
from simhash_core.text.fingerprinter import Fingerprinted
from simhash_core.text.profiles import DEFAULT_PROFILE
from streams.settings.index import IndexSettings
from streams.settings.settings import Settings


class Fingerprinter:
    """Makes fingerprints of texts. Not thread-safe; creating one takes a second."""

    def __init__(self, profile: str = DEFAULT_PROFILE, index: IndexSettings | None = None) -> None:
        """Load the segmenter and its tables.

        Args:
            profile: ``"wide"`` or ``"classic"``.
            index: Changes to the profile.

        Raises:
            FirstseenError: There is no such profile, or its settings do not fit each other.
        """
        settings = Settings(profile=profile, index=index or IndexSettings())
        self._core = core.Fingerprinter(settings.index_profile())

    @property
    def identity(self) -> str:
        """Everything that decides what is near, as text; comparable fingerprints have the same."""
        return self._core.identity

    @property
    def bits(self) -> int:
        return self._core.scheme.bits

    def fingerprint(self, text: str) -> Fingerprinted:
        """Return the fingerprint of a text, empty if ``undecidable`` says why it has none."""
        return self._core.fingerprint(text)

    def fingerprints(self, texts: Iterable[str]) -> list[Fingerprinted]:
        """Return the fingerprints of texts in order; many at a time take half as long each."""
        return self._core.fingerprint_batch(list(texts))

    @staticmethod
    def distance(a: Fingerprinted, b: Fingerprinted) -> int:
        """Return the number of differing bits; raises ``ValueError`` if one has no fingerprint."""
        if not (a.fingerprint and b.fingerprint):
            raise ValueError("the text is too short to have a fingerprint")
        return distance_bits(a.fingerprint, b.fingerprint)
