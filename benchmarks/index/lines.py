"""The part of ``firstseen index load`` that is its own: lines of fingerprints to records.

What comes after it is the broker's, and what workers do with any changelog (``rebuild``).
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from benchmarks.index.documents import CHAIN, blocks_of
from simhash_core.documents import Entry, SourcePosition
from simhash_core.log.records import Chain
from simhash_core.text.fingerprinter import Fingerprinter
from streams.maintenance.exporting import encode_entry
from streams.maintenance.loading import FileSource, LoadSpool
from streams.settings.settings import Settings
from streams.store.changelog_codec import encode_block
from streams.store.row_codec import EntryBlock


def read_lines(path: Path, profile: str, documents: int) -> dict[str, float]:
    """Write an export to a file, read it as a load does, and make records of the changelog.

    Writing does not count.
    """
    with path.open("wb") as file:
        for block in blocks_of(profile, documents):
            file.writelines(
                encode_entry(int(sequence), _entry(block, row), "")
                for row, sequence in enumerate(block.sequences)
            )
    settings = Settings(profile=profile)
    source = FileSource(
        settings, Fingerprinter(settings.index_profile()), str(path), "fingerprints"
    )
    begun = time.process_time()
    read = 0
    with LoadSpool() as spool:
        for run in source.runs(lambda *_: None):
            spool.write(run)
        for run in spool.read():
            numbers = np.arange(read, read + len(run.columns), dtype=np.uint64)
            chain = Chain(run.topic, "", run.partition)
            encode_block(EntryBlock(chain, numbers, run.columns))
            read += len(run.columns)
    spent = time.process_time() - begun
    if read != documents:
        raise RuntimeError(f"{read} of {documents} documents")
    return {"lines_per_cpu_second": documents / spent}


def _entry(block: EntryBlock, row: int) -> Entry:
    columns = block.columns
    return Entry(
        SourcePosition(CHAIN.topic, CHAIN.partition, int(columns.offsets[row])),
        columns.document_id(row),
        int(columns.times_ms[row]),
        columns.fingerprints[row].tobytes(),
        columns.digest(row),
        columns.sketches[row],
    )
