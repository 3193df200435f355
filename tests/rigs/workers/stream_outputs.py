"""The outputs of a stream, read back from its topics and compared with the sent records."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import NamedTuple, Self

import jsonschema

from simhash_core.documents import Document, Headers, RawRecord, SourcePosition
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import Profile, index_digest
from streams import schemas
from streams.documents.output_records import (
    DeadLetterOutput,
    DuplicateOutput,
    ReceivedOutput,
    TombstoneOutput,
    UniqueOutput,
    received_output,
)
from streams.kafka.topic_follower import ReadRecord, TopicFollower
from streams.registry.schema_cache import command_reader
from streams.settings.settings import Settings
from tests.rigs.invariants import (
    Known,
    Nearness,
    Repeat,
    check_conservation,
    check_grounding,
    check_separation,
)

DUPLICATE_OF = jsonschema.Draft202012Validator(schemas.load("duplicate-of.v2"))


@cache
def _fingerprinter(profile: Profile) -> Fingerprinter:
    """Return a cached fingerprinter, because loading dictionaries takes a second."""
    return Fingerprinter(profile)


class Raw(NamedTuple):
    """A record to send; if ``partition`` is None, the key decides."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int = 0
    partition: int | None = None

    @property
    def is_tombstone(self) -> bool:
        """Whether the record deletes a document; then it is no document and has no verdict."""
        return self.value is None and bool(self.key)


class Output(NamedTuple):
    record: ReadRecord
    said: ReceivedOutput

    @property
    def content(self) -> tuple[object, ...]:
        """Everything but its position, which a repeated output must have again."""
        it = self.record
        return it.position.topic, it.key, it.value, it.timestamp_ms, it.headers


class Outputs:
    """Reads the three output topics, committed records only; keeps all that it has read.

    Tombstones are kept separately, because they come in addition to the one output of each record.

    A record that was deleted before it was read is an error, not a gap.
    """

    def __init__(self, settings: Settings, partitions: Mapping[str, int]) -> None:
        self.records: list[Output] = []
        self.tombstones: list[Output] = []
        self.count: Counter[SourcePosition] = Counter()
        self.awaited: set[SourcePosition] = set()
        self._follower = TopicFollower(settings, partitions, from_beginning=True, gaps="error")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._follower.__exit__(*error)

    def expect(self, sources: Iterable[SourcePosition]) -> None:
        """Keep the positions of sent records in ``awaited`` until their output is read."""
        self.awaited.update(source for source in sources if source not in self.count)

    def read(self, seconds: float = 0.05) -> int:
        """Read the available records; return their number."""
        found = self._follower.read(seconds)
        for record in found:
            said = received_output(record.value, record.headers)
            assert said is not None, f"{record.position} is no output of the filter: {record}"
            if isinstance(said, TombstoneOutput):
                self.tombstones.append(Output(record, said))
            else:
                self.records.append(Output(record, said))
                self.count[said.source] += 1
                self.awaited.discard(said.source)
        return len(found)

    def read_to_ends(self) -> None:
        ends = self._follower.ends()
        for _ in range(400):
            if self._follower.has_passed(ends):
                return
            self.read()
        raise AssertionError("the outputs cannot be read to their ends")

    # ---- outputs by their raw record

    @property
    def uniques(self) -> dict[SourcePosition, Output]:
        return {o.said.source: o for o in self.records if isinstance(o.said, UniqueOutput)}

    @property
    def duplicates(self) -> dict[SourcePosition, DuplicateOutput]:
        said = (output.said for output in self.records)
        return {each.source: each for each in said if isinstance(each, DuplicateOutput)}

    @property
    def dead_letters(self) -> dict[SourcePosition, DeadLetterOutput]:
        said = (output.said for output in self.records)
        return {each.source: each for each in said if isinstance(each, DeadLetterOutput)}

    def of(self, source: SourcePosition) -> list[Output]:
        return [output for output in self.records if output.said.source == source]

    def repeats(self) -> list[Output]:
        """The outputs beyond the first of each raw record, which must have the same content."""
        first: dict[SourcePosition, Output] = {}
        found = []
        for output in self.records:
            before = first.setdefault(output.said.source, output)
            if before is not output:
                assert output.content == before.content, f"{before} was repeated as {output}"
                found.append(output)
        return found


class Judge:
    """Compares outputs with the sent records: makes fingerprints again, and compares all pairs."""

    def __init__(self, settings: Settings) -> None:
        self._fingerprinter = _fingerprinter(settings.index_profile())
        self._reader = command_reader(settings, settings.max_record_bytes)
        self._near = Nearness.of(self._fingerprinter)
        self._index = index_digest(self._fingerprinter.identity).encode()

    def conserved(
        self, sent: Mapping[SourcePosition, Raw], outputs: Outputs, *, repeats_allowed: bool = False
    ) -> int:
        """Check that every sent record is in exactly one output, and nothing else is.

        A tombstone is in no output. Returns the number of repeated outputs.
        """
        repeats = outputs.repeats()
        assert repeats_allowed or not repeats, f"{len(repeats)} repeats, such as {repeats[0]}"
        arrivals = [str(source) for source, raw in sent.items() if not raw.is_tombstone]
        check_conservation(arrivals, map(str, outputs.count))
        verdicts: tuple[Iterable[SourcePosition], ...]
        verdicts = outputs.uniques, outputs.duplicates, outputs.dead_letters
        check_conservation(arrivals, *(map(str, each) for each in verdicts))
        return len(repeats)

    def ordered(self, outputs: Outputs) -> int:
        """Check that first outputs are in raw order in each partition; return their number."""
        last: dict[tuple[str, int, int], int] = {}
        seen: set[SourcePosition] = set()
        for record, said in outputs.records:
            source, position = said.source, record.position
            if source in seen:
                continue
            seen.add(source)
            place = position.topic, position.partition, source.partition
            before = last.get(place, -1)
            assert before < source.offset, f"{source} is at {position}, after offset {before}"
            last[place] = source.offset
        return len(seen)

    def unchanged(self, sent: Mapping[SourcePosition, Raw], outputs: Outputs) -> int:
        """Check that ``unique`` has what was sent: key, value, time, and its own headers first."""
        for source, (record, _) in outputs.uniques.items():
            raw = sent[source]
            assert (record.key, record.value) == (raw.key, raw.value), f"{source} was changed"
            assert record.timestamp_ms == raw.timestamp_ms, f"the time of {source} was changed"
            own, ours = record.headers[: len(raw.headers)], record.headers[len(raw.headers) :]
            assert own == raw.headers, f"the headers of {source} were changed"
            assert all(name.startswith("firstseen-") for name, _ in ours), source
        return len(outputs.uniques)

    def valid(self, outputs: Outputs) -> int:
        for output in outputs.records:
            if isinstance(output.said, DuplicateOutput):
                DUPLICATE_OF.validate(json.loads(output.record.value or b""))
        return len(outputs.duplicates)

    def separated(self, sent: Mapping[SourcePosition, Raw], outputs: Outputs) -> int:
        """Check that no two near uniques share a bucket; return the near pairs that share none."""
        known = self._known(sent, outputs.uniques)
        for source, output in outputs.uniques.items():
            headers = dict(output.record.headers)
            index, made = headers["firstseen-index"], headers.get("firstseen-fingerprint")
            assert index == self._index, f"{source} was decided by another index than this one"
            assert (known[str(source)].fingerprint or b"").hex().encode() == (made or b"")
        return check_separation(known, self._near)

    def grounded(self, sent: Mapping[SourcePosition, Raw], outputs: Outputs) -> int:
        """Check that each duplicate names a near unique, at its distance; return their number."""
        repeats = [
            Repeat(str(source), str(said.original), said.distance)
            for source, said in outputs.duplicates.items()
        ]
        known = self._known(sent, [*outputs.uniques, *outputs.duplicates])
        return check_grounding(known, set(map(str, outputs.uniques)), repeats, self._near)

    def _known(
        self, sent: Mapping[SourcePosition, Raw], sources: Collection[SourcePosition]
    ) -> dict[str, Known]:
        documents: list[Document] = []
        for source in sources:
            raw = sent[source]
            record = RawRecord(raw.key, raw.value, raw.timestamp_ms, raw.headers)
            document = self._reader.read(source, record)
            assert isinstance(document, Document), f"{source} is no document: {document}"
            documents.append(document)
        made = self._fingerprinter.fingerprint_batch([document.content for document in documents])
        return {
            str(document.source): Known.of(document.id, each)
            for document, each in zip(documents, made, strict=True)
        }
