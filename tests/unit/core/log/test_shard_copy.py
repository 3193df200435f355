"""The entries of a shard between what is decided and what is committed."""

from __future__ import annotations

import numpy as np

from simhash_core.index.document_index import DocumentIndex
from simhash_core.log.local_decider import MemoryEntries
from simhash_core.log.records import NO_CONTROL, Progress
from simhash_core.log.shard_stream import NewEntries
from simhash_core.log.shards import ShardCopy
from tests.unit.core.log.log_of_records import FAR, NEARNESS, chain, packet


def test_entry_that_a_commit_brings_after_its_removal_is_hidden() -> None:
    index = DocumentIndex(NEARNESS.scheme)
    store = MemoryEntries()
    progress = Progress(chain(0), 0, 0, NO_CONTROL)
    copy = ShardCopy(progress, index.open_slot(), store, index)
    copy.begin(0)
    documents = packet(FAR[:1])
    names = [documents.columns.ids[0]]
    sequence = 1 << 16
    copy.remove([sequence], may_come=True)
    store.add(NewEntries(1, documents, np.arange(1)))
    copy.committed(Progress(chain(0), 1, 2, NO_CONTROL), [])
    assert store.by_ids(names) == [[sequence]]
    assert copy.with_ids(names) == [set()]
    store.remove([sequence])
    copy.committed(Progress(chain(0), 1, 3, NO_CONTROL), [sequence])
    assert copy.removed == frozenset()
