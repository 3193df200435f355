"""The fingerprints of late documents: an exact repeat is neither segmented nor sketched again.

Two generations: what is seen is kept in the young one. When that is full it becomes the old one,
whose place it takes. So what came within the last half of the memory is there for certain, nothing
that is seen again is lost, and no document is ever removed by itself. Documents are compared whole,
so that nobody can make two with one key.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from simhash_core.documents import Content

FINGERPRINT_MEMORY_BYTES: Final = 16 << 20
"""What the memo may hold, roughly: 8,000 documents of 500 Chinese characters."""

# Objects of a document and of what is known of it, with a sketch; measured with tracemalloc.
_OVERHEAD_BYTES: Final = 1_000
_CHARACTER_BYTES: Final = 2

_Fingerprinted = TypeVar("_Fingerprinted")


class FingerprintMemo(Generic[_Fingerprinted]):
    """What was made of late documents, by their content."""

    def __init__(self, memory_bytes: int = FINGERPRINT_MEMORY_BYTES) -> None:
        """Begin empty; ``memory_bytes`` bounds both generations together, 0 keeps nothing."""
        self._generation_bytes = memory_bytes // 2
        self._young: dict[Content, _Fingerprinted] = {}
        self._old: dict[Content, _Fingerprinted] = {}
        self._used_bytes = 0

    def get(self, content: Content) -> _Fingerprinted | None:
        """Return what was made of an equal document, None where it is not known any more."""
        fingerprinted = self._young.get(content)
        if fingerprinted is None and self._old:
            fingerprinted = self._old.get(content)
            if fingerprinted is not None:
                self.keep(content, fingerprinted)
        return fingerprinted

    def keep(self, content: Content, fingerprinted: _Fingerprinted) -> None:
        """Remember what was made of a document; one too large for the memory is left out."""
        size = _OVERHEAD_BYTES + _CHARACTER_BYTES * len(content.text)
        if size > self._generation_bytes:
            return
        if self._used_bytes + size > self._generation_bytes:
            self._old, self._young, self._used_bytes = self._young, {}, 0
        self._young[content] = fingerprinted
        self._used_bytes += size
