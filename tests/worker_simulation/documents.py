"""Documents of ``tests.simulation`` as raw records, and a fingerprinter that knows them.

The text of a record names its document, so that a fingerprint costs a look-up in a table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, cast

from simhash_core.document_columns import REASON_CODES
from simhash_core.documents import Content
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.text.fingerprinter import Fingerprinted, Fingerprinter
from simhash_core.text.profiles import COMPARE, REPLACE, Profile
from simhash_core.text.verification import Verifier
from simhash_core.verdicts import UndecidableReason
from tests.simulation.documents import DRAWN_MS, START_MS, SimulatedDocument
from tests.simulation.scenario import IndexScenario

IDENTITY: Final = "simulated-index v=1"
OTHER_IDENTITY: Final = "simulated-index v=2"
READING: Final = "simulated"
UNREADABLE: Final = b"{"
_SECOND_MS: Final = 1_000
_ODD: Final = 1_000
"""How many documents the time of one may be from that of the others; others are wrong dates."""


class RawDocument(NamedTuple):
    """A raw record to produce; ``document`` is None if it cannot be read."""

    offset: int
    document: SimulatedDocument | None
    key: bytes
    value: bytes | None


def raw_document(offset: int, name: str, document: SimulatedDocument | None) -> RawDocument:
    """Return a document as a raw record; ``name`` is its text."""
    if document is None:
        return RawDocument(offset, None, name.encode(), UNREADABLE)
    key = document.document_id.encode()
    if document.is_delete:
        return RawDocument(offset, document, key, None)
    fields = {
        "id": document.document_id,
        "text": name,
        "timestamp": document.time_ms,
        "scope": document.scope,
    }
    if not document.scope:
        del fields["scope"]
    return RawDocument(offset, document, key, json.dumps(fields).encode())


def in_archive(
    documents: Sequence[SimulatedDocument | None],
) -> Iterator[SimulatedDocument | None]:
    """Yield documents from before the run, with a second from one to the next and no odd times."""
    number = 0
    for document in documents:
        if document is None:
            yield None
            continue
        drawn = (document.time_ms - START_MS) // DRAWN_MS
        if abs(drawn - number) < _ODD:
            number = max(0, drawn)
        yield document._replace(time_ms=(1 + number) * _SECOND_MS)


class SimulatedProfile(Profile, frozen=True):
    """A profile whose scheme and verifier are those of a scenario."""

    def scheme(self) -> BlockScheme:
        return self.block_scheme()

    def verifier(self) -> Verifier | None:
        return _VERIFIERS.get(self)


_VERIFIERS: dict[Profile, Verifier | None] = {}


def profile_of(scenario: IndexScenario) -> SimulatedProfile:
    """Return a profile in which the same documents are near as in a scenario."""
    scheme, verifier, window = scenario.scheme, scenario.verifier, scenario.window
    profile = SimulatedProfile(
        scheme.bits,
        scheme.blocks,
        scheme.block_bits,
        scheme.distance,
        cuts=scheme.cuts,
        bands=scheme.bands,
        band_bins=scheme.band_bins,
        verify="none" if verifier is None else "shingles",
        verify_at=0.0 if verifier is None else verifier.at,
        mean_at=0.0 if verifier is None else verifier.mean_at,
        window=None if window is None else window.window_ms,
        lateness=0 if window is None else window.lateness_ms,
        same_id=REPLACE if scenario.replaces else COMPARE,
        scoped=True,
    )
    _VERIFIERS[profile] = verifier
    return profile


class SimulatedFingerprinter:
    """The methods of a ``Fingerprinter`` that the worker calls."""

    def __init__(
        self, profile: SimulatedProfile, documents: Mapping[str, SimulatedDocument]
    ) -> None:
        self.profile = profile
        self.scheme = profile.scheme()
        self.verifier = profile.verifier()
        self.identity = IDENTITY
        self._documents = documents

    def fingerprint_batch(self, contents: Sequence[Content | str]) -> list[Fingerprinted]:
        return [self._of(each if isinstance(each, str) else each.text) for each in contents]

    def _of(self, text: str) -> Fingerprinted:
        document = self._documents[text]
        if document.fingerprint is None:
            reason = cast(UndecidableReason, REASON_CODES[document.reason])
            return Fingerprinted(b"", document.digest, 0, reason)
        fingerprint = document.fingerprint.to_bytes(self.scheme.bits // 8, "big")
        return Fingerprinted(fingerprint, document.digest, 99, None, document.sketch)


def fingerprinter_of(
    profile: SimulatedProfile, documents: Mapping[str, SimulatedDocument]
) -> Fingerprinter:
    return cast(Fingerprinter, SimulatedFingerprinter(profile, documents))
