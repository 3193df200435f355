"""Fingerprints that are made once, for many passes over the same texts with other thresholds.

Distance, threshold of confirmation, and how the fingerprint is cut into blocks decide which
documents are compared and are near, not what their fingerprints are. So profiles that differ in
these alone share what was made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec

from simhash_core.documents import Content
from simhash_core.text.fingerprinter import Fingerprinted, Fingerprinter
from simhash_core.text.profiles import Profile

_DIGEST_BYTES: Final = 16

_THRESHOLDS: Final = ("blocks=", "distance=")
_VERIFIED_AT: Final = "@"
"""In the identity of a confirmation, before its threshold."""

_Fingerprints = dict[bytes, Fingerprinted]


class RememberedFingerprints:
    """Makes fingerprinters that look up what any of them has made.

    Holds some 200 bytes a text, and its fingerprint and sketch.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Fingerprints] = {}

    def fingerprinter(self, profile: Profile) -> Fingerprinter:
        """Return the fingerprinter of a profile; raises what ``Fingerprinter`` raises."""
        return _Remembering(profile, self._known)


class _Remembering(Fingerprinter):
    """A fingerprinter that makes what has not been made."""

    def __init__(self, profile: Profile, known: dict[str, _Fingerprints]) -> None:
        super().__init__(profile)
        self._known = known.setdefault(_maker(self.identity), {})

    def fingerprint_batch(self, contents: Sequence[Content | str]) -> list[Fingerprinted]:
        """Return the fingerprints of a batch of documents as they came, in order."""
        digests = [_digest(content) for content in contents]
        missing = {
            digest: content
            for digest, content in zip(digests, contents, strict=True)
            if digest not in self._known
        }
        fingerprinted = super().fingerprint_batch(list(missing.values()))
        self._known.update(zip(missing, fingerprinted, strict=True))
        return [self._known[digest] for digest in digests]


def _maker(identity: str) -> str:
    """Return the parts of an index identity that decide on fingerprints and sketches."""
    kept = [part for part in identity.split() if not part.startswith(_THRESHOLDS)]
    return " ".join(part.partition(_VERIFIED_AT)[0] for part in kept)


def _digest(content: Content | str) -> bytes:
    encoded = msgspec.msgpack.encode(content)
    return hashlib.blake2b(encoded, digest_size=_DIGEST_BYTES).digest()
