"""Feature hashes: a term to as many bits as a fingerprint has, by name.

A feature hash is a pure function ``(term, bits) -> bytes`` of ``bits / 8`` bytes, big-endian: bit 0
of the fingerprint is the highest bit of the first byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from simhash_core.errors import UnknownNameError
from simhash_core.fingerprints.feature_hashes import java, xxh3

FeatureHash = Callable[[str, int], bytes]

_BY_NAME: Final[Mapping[str, FeatureHash]] = {"xxh3": xxh3.feature_hash, "java": java.feature_hash}
FEATURE_HASHES: Final = tuple(_BY_NAME)


def feature_hash_named(name: str) -> FeatureHash:
    """Return the feature hash called ``name``.

    Raises ``UnknownNameError`` for a name that is not in ``FEATURE_HASHES``.
    """
    if name not in _BY_NAME:
        raise UnknownNameError("feature hash", name, FEATURE_HASHES)
    return _BY_NAME[name]
