"""Turns texts into fingerprints, and checks the arguments that a program passes."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable

import msgspec

from simhash_core.errors import UsageError
from simhash_core.fingerprints.fingerprint import distance_bits
from simhash_core.text import fingerprinter as core
from simhash_core.text.fingerprinter import Fingerprinted
from simhash_core.text.profiles import DEFAULT_PROFILE
from streams.settings.settings import IndexSettings, Settings


def checked_string(name: str, value: object) -> str:
    """Return ``value`` if it is a ``str``; raise ``UsageError``."""
    if isinstance(value, str):
        return value
    raise UsageError(f"{name} is {described(value)}: give a str")


def checked_strings(name: str, values: object) -> list[str]:
    """Return strings as a list; refuse a single string, which is a sequence of characters."""
    return [
        checked_string(f"{name}[{at}]", each)
        for at, each in enumerate(checked_list(name, values, "str"))
    ]


def checked_list(name: str, values: object, kind: str) -> list[object]:
    if isinstance(values, Iterable) and not isinstance(values, str | bytes):
        return list(values)
    raise UsageError(f"{name} is {described(values)}: give a list, or another iterable, of {kind}")


def checked_settings(index: object) -> IndexSettings:
    """Return the changes to a profile; raise ``UsageError`` for a value that is never valid."""
    if index is None:
        return IndexSettings()
    if not isinstance(index, IndexSettings):
        raise UsageError(f"index is {described(index)}: give IndexSettings(name=value, …)")
    try:
        return msgspec.convert(msgspec.structs.asdict(index), IndexSettings)
    except msgspec.ValidationError as error:
        raise UsageError(f"index: {error}") from None


def described(value: object) -> str:
    return f"{reprlib.repr(value)} of type {type(value).__name__}"


class Fingerprinter:
    """Makes fingerprints of texts. Not thread-safe; creating one takes a second."""

    def __init__(self, profile: str = DEFAULT_PROFILE, index: IndexSettings | None = None) -> None:
        """Load the segmenter and its tables.

        Args:
            profile: ``"wide"``, ``"quick"`` or ``"classic"``.
            index: Changes to the profile.

        Raises:
            FirstseenError: There is no such profile, or its settings do not fit each other.
        """
        settings = Settings(profile=profile, index=checked_settings(index))
        self._core = core.Fingerprinter(settings.index_profile())

    @property
    def identity(self) -> str:
        """All settings that decide which texts are near; equal for comparable fingerprints."""
        return self._core.identity

    @property
    def bits(self) -> int:
        return self._core.scheme.bits

    def fingerprint(self, text: str) -> Fingerprinted:
        """Return the fingerprint of a text; it is empty if ``undecidable`` gives a reason."""
        return self._core.fingerprint(checked_string("text", text))

    def fingerprints(self, texts: Iterable[str]) -> list[Fingerprinted]:
        """Return the fingerprints of texts in order; many at a time take a tenth as long each."""
        return self._core.fingerprint_batch(checked_strings("texts", texts))

    @staticmethod
    def distance(a: Fingerprinted, b: Fingerprinted) -> int:
        """Return the number of differing bits; raises ``ValueError`` if one has no fingerprint."""
        if not (a.fingerprint and b.fingerprint):
            raise ValueError("the text is too short to have a fingerprint")
        return distance_bits(a.fingerprint, b.fingerprint)
