"""The short name of an index identity, which stands where the whole would be too long.

Records, labels of metrics, lines of the log and ``--json`` have the short name. The whole identity
is in ``firstseen config show``, in the first lines of a worker's log and in the changelog.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Final

_DIGEST_BYTES: Final = 6


@lru_cache(maxsize=16)
def index_digest(identity: str) -> str:
    """Return the short name of an index identity: 12 hexadecimal digits, from BLAKE2b-48."""
    return hashlib.blake2b(identity.encode(), digest_size=_DIGEST_BYTES).hexdigest()
