"""The stream that a program of the contest works on, from its command line.

``python -m benchmarks.peers.PROGRAM BROKERS NAME DIRECTORY`` reads the topic NAME.raw in the
consumer group NAME, writes to NAME.unique and NAME.duplicate-of, keeps the key of each record, and
runs until it is ended.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple


class Stream(NamedTuple):
    """The topics of a contender; ``directory`` is for its state on disk."""

    brokers: str
    name: str
    directory: Path

    @property
    def raw(self) -> str:
        return f"{self.name}.raw"

    @property
    def unique(self) -> str:
        return f"{self.name}.unique"

    @property
    def duplicates(self) -> str:
        return f"{self.name}.duplicate-of"

    @property
    def dead_letters(self) -> str:
        return f"{self.name}.dlq"

    @property
    def topics(self) -> frozenset[str]:
        return frozenset((self.raw, self.unique, self.duplicates, self.dead_letters))

    @property
    def arguments(self) -> list[str]:
        return [self.brokers, self.name, str(self.directory)]


def stream_of_arguments() -> Stream:
    brokers, name, directory = sys.argv[1:4]
    return Stream(brokers, name, Path(directory))
