"""Scopes: documents of different scopes are never compared.

A scope turns each fingerprint by a mask of its own (an exclusive or), and is part of the content
digest. Between documents of one scope this changes nothing: they differ in the same bits as before,
and share the same blocks. Documents of different scopes are as far from each other as unrelated
texts, so they are not candidates of each other: no column, no filter, and the documents of a scope
do not crowd the buckets of another. Where two are candidates by chance, their scopes are compared
(``simhash_core.index.look_up``). Where there is no scope, nothing is done.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

_MASK_PERSON = b"scope mask"
_DIGEST_PERSON = b"scope digest"


def masked(fingerprint: bytes, scope: str) -> bytes:
    """Return a fingerprint as it stands in the index; of what this returns, the fingerprint."""
    if not scope or not fingerprint:
        return fingerprint
    size = len(fingerprint)
    turned = int.from_bytes(fingerprint, "big") ^ _mask(scope, size)
    return turned.to_bytes(size, "big")


def scoped_digest(digest: bytes, scope: str) -> bytes:
    """Return a content digest as it stands in the index: equal for equal content in one scope."""
    if not scope:
        return digest
    return blake2b(digest, digest_size=len(digest), key=_key(scope), person=_DIGEST_PERSON).digest()


@lru_cache(4096)
def _mask(scope: str, size: int) -> int:
    """Return the mask of a scope for fingerprints of ``size`` bytes, 64 or fewer."""
    mask = blake2b(scope.encode(), digest_size=size, person=_MASK_PERSON).digest()
    return int.from_bytes(mask, "big")


@lru_cache(4096)
def _key(scope: str) -> bytes:
    """Return a scope of any length as a key of 16 bytes."""
    return blake2b(scope.encode(), digest_size=16).digest()
