"""Which versions of the formats there are, who writes which, and how a new one comes into force.

A release reads two versions, N - 1 (``OLDEST``) and N (``NEWEST``), of all that workers write for
each other: records of the log, reports, records of the changelog. So workers of a release and of
the next one can run together. The log itself decides which version they write:

1. Each control record names the version *in force* from it on. Before the first one, it is N - 1 of
   the release that reads. So all readers know the version in force at each offset of the log, also
   those that begin with the control record in force there.
2. Everybody writes in the version in force, as far as the log was read.
3. Only the leader raises it, and only to a version that each member of the group reads, as their
   reports say (``Readers``). The control record that raises it is still in the version before, so
   those that cannot go on can read why.
4. A record counts if it is in the version in force, or in the one before: its sender may not have
   read the raise yet. All others are skipped by everybody, whoever could read them.
5. A worker that reads no version as high as the one in force stops (``UnreadableVersionError``).

Until the raise, any worker can be replaced by one of the release before; after it, those refuse.
What one worker alone reads, its store, has a version of its own and is rebuilt from the changelog.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from simhash_core.errors import ErrorReason, FirstseenError

OLDEST: Final = 4
NEWEST: Final = 5

STANDBYS_SINCE: Final = 5
"""Control records name the open standbys from this version on."""


class UnreadableVersionError(FirstseenError):
    """A version that this release does not read is in force, or that of a record that counts."""

    reason = ErrorReason.FORMAT

    def __init__(self, where: str, version: int, reads: int = NEWEST) -> None:
        """``reads``: the highest version that is read here."""
        self.version = version
        fix = (
            "It is older than the workers of this index: start their release, or a newer one; "
            "going back needs a new index"
            if version > reads
            else "Upgrade through a release that reads both"
        )
        super().__init__(
            f"{where} has format version {version}, and this release reads {OLDEST} to {reads}. "
            f"{fix} (docs/operations.md, Upgrade)"
        )


def counts(version: int, in_force: int) -> bool:
    """Return whether a record of a version counts where another one is in force."""
    return in_force - 1 <= version <= in_force


class Readers:
    """What the members of the group read, for a leader that may raise the version in force."""

    def __init__(self, newest: int) -> None:
        self._newest = newest
        self._reads: dict[str, int] = {}
        self._members: Mapping[str, str] = {}

    def note(self, worker: str, reads: int) -> None:
        """Note a report."""
        member = member_of(worker)
        self._reads[member] = min(reads, self._reads.get(member, reads))

    def check(self, members: Mapping[str, str]) -> bool:
        """Return whether all members read the newest version; call it again and again.

        ``members`` maps their names to what tells two lives of a name apart. They must be those of
        the call before, and each must have reported in between. Who joins later finds it raised.
        """
        all_read = all(self._reads.get(name, 0) >= self._newest for name in members)
        are_same, self._members = members == self._members, members
        self._reads = {}
        return bool(members) and are_same and all_read


def member_of(worker: str) -> str:
    """Return the name in the group of a worker: its own without that of the life, if it has one."""
    return worker.rpartition(".")[0] or worker
