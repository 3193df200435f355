"""Which format versions exist, who writes which, and how a new one comes into force.

A release reads two versions, N - 1 (``OLDEST``) and N (``NEWEST``), of everything that workers
write for each other: records of the log, reports, records of the changelog. So workers of one
release and the next can run together. The log itself decides which version they write:

1. Each control record names the version that is *in force* after it. Before the first control
   record, N - 1 of the reading release is in force. So all readers know the version in force at
   each offset of the log, even if they begin with the control record in force there.
2. Each worker writes in the version in force at the offset up to which it has read the log.
3. Only the leader raises the version, and only to one that every member of the group reads,
   according to their reports (``Readers``). The control record that raises the version is still in
   the old one, so workers that must stop can read why.
4. A record counts if it is in the version in force or in the one before, because its sender may not
   have read the raise yet. All workers skip other records, even if they could read them.
5. A worker that reads no version as high as the one in force stops (``UnreadableVersionError``).

Before the raise, any worker can be replaced by one of the release before; after it, workers of that
release refuse to run. A store is read by one worker alone: it has its own version and is rebuilt
from the changelog.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from simhash_core.errors import ErrorReason, FirstseenError

OLDEST: Final = 4
NEWEST: Final = 5

STANDBYS_SINCE: Final = 5
"""The first version in which control records name the open standbys."""


class UnreadableVersionError(FirstseenError):
    """A version that this release does not read is in force, or is that of a record that counts."""

    reason = ErrorReason.FORMAT

    def __init__(self, where: str, version: int, reads: int = NEWEST) -> None:
        """``reads``: the newest version that this release reads."""
        self.version = version
        fix = (
            "It is older than the workers of this index: start their release or a newer one. A "
            "downgrade needs a new index"
            if version > reads
            else "Upgrade first to a release that reads both"
        )
        super().__init__(
            f"{where} has format version {version}, and this release reads {OLDEST} to {reads}. "
            f"{fix} (docs/operations.md, Upgrade)"
        )


def counts(version: int, in_force: int) -> bool:
    """Return whether a record of a version counts where another one is in force."""
    return in_force - 1 <= version <= in_force


class Readers:
    """Which versions the group's members read, for a leader that may raise that in force."""

    def __init__(self, newest: int) -> None:
        self._newest = newest
        self._reads: dict[str, int] = {}
        self._members: Mapping[str, str] = {}

    def note(self, worker: str, reads: int) -> None:
        member = member_of(worker)
        self._reads[member] = min(reads, self._reads.get(member, reads))

    def check(self, members: Mapping[str, str]) -> bool:
        """Return whether all members read the newest version; call it repeatedly.

        ``members`` maps names to ids that differ between two lives of a worker. The members must be
        the same as in the call before, and each must have reported in between. A worker that joins
        later finds the version already raised.
        """
        all_read = all(self._reads.get(name, 0) >= self._newest for name in members)
        are_same, self._members = members == self._members, members
        self._reads = {}
        return bool(members) and are_same and all_read


def member_of(worker: str) -> str:
    """Return the name of a worker in the group, which is its name without the part for its life."""
    return worker.rpartition(".")[0] or worker
