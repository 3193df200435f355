"""The entries in the changelogs at the end, which are those that a rebuilt shard would have."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from simhash_core.documents import SourcePosition
from simhash_core.log.records import Progress
from streams.kafka.topic_follower import ReadRecord, TopicFollower
from streams.settings.settings import Settings
from streams.store.changelog_codec import LoggedDeletions, LoggedEnd, LoggedProgress, decode_record
from streams.store.row_codec import EntryBlock

READ_SECONDS = 120.0
INDEX_BITS = 16


@dataclass
class Aftermath:
    entries: dict[SourcePosition, bytes] = field(default_factory=dict)
    """Fingerprints by raw record; b"" for an undecidable document."""
    twice: list[SourcePosition] = field(default_factory=list)  # raw records with several entries
    # Raw records with entries in another shard's changelog.
    misplaced: list[SourcePosition] = field(default_factory=list)
    progress: dict[int, Progress] = field(default_factory=dict)  # by shard

    def other_than(
        self, left: Mapping[SourcePosition, bytes], gone: Container[SourcePosition]
    ) -> list[str]:
        """Compare with the unique documents; removed ones (``gone``) may still have entries."""
        found = [f"{source} has two entries" for source in self.twice]
        found += [f"{source} is not in its own shard" for source in self.misplaced]
        found += [f"{source} is unique without an entry" for source in left.keys() - self.entries]
        for source, fingerprint in self.entries.items():
            if source in left:
                if fingerprint != left[source]:
                    found.append(f"{source} has an entry with another fingerprint")
            elif source not in gone:
                found.append(f"{source} has an entry and is not unique, or was taken out")
        return found


def read_all(settings: Settings, topics: dict[str, int]) -> Iterator[ReadRecord]:
    with TopicFollower(settings, topics, from_beginning=True, gaps="error") as follower:
        ends = follower.ends()
        deadline = time.monotonic() + READ_SECONDS
        while not follower.has_passed(ends):
            yield from follower.read(0.1)
            assert time.monotonic() < deadline, f"{list(topics)} cannot be read to their ends"


def aftermath(settings: Settings, shards: int) -> Aftermath:
    found = Aftermath()
    sources: dict[int, dict[int, SourcePosition]] = defaultdict(dict)
    for record in read_all(settings, {settings.topics.changelog: shards}):
        shard = record.position.partition
        mine = sources[shard]
        said = decode_record(record.key, record.value, str(record.position))
        gone: Iterable[int] = ()
        match said:
            case LoggedProgress():
                found.progress[shard] = said.progress
                gone = [sequence for sequence in mine if sequence < said.expired_before]
            case LoggedDeletions():
                gone = said.sequences
            case LoggedEnd():
                packet = said.first >> INDEX_BITS
                gone = [sequence for sequence in mine if sequence >> INDEX_BITS == packet]
            case EntryBlock():
                for sequence, source, fingerprint in _entries(said):
                    if source in found.entries:
                        found.twice.append(source)
                    if source.partition != shard:
                        found.misplaced.append(source)
                    found.entries[source] = fingerprint
                    mine[sequence] = source
        for sequence in mine.keys() & gone:
            del found.entries[mine.pop(sequence)]
    return found


def _entries(block: EntryBlock) -> Iterator[tuple[int, SourcePosition, bytes]]:
    columns, chain = block.columns, block.chain
    for row, sequence in enumerate(block.sequences.tolist()):
        source = SourcePosition(chain.topic, chain.partition, int(columns.offsets[row]))
        words = columns.fingerprints[row].tobytes()
        yield sequence, source, b"" if columns.undecidable[row] else words
