"""Record batches of Arrow, for example from Parquet files: each gets a column of originals.

python examples/arrow_batches.py news.parquet
"""

from __future__ import annotations

import sys

import pyarrow as pa
import pyarrow.parquet as pq

from firstseen import Deduplicator, DuplicateOf


def with_originals(batch: pa.RecordBatch, seen: Deduplicator) -> pa.RecordBatch:
    """Return a batch that has ``id`` and ``text`` with a column of originals: null if unique."""
    ids, texts = batch.column("id").to_pylist(), batch.column("text").to_pylist()
    verdicts = seen.add_batch(texts, ids=map(str, ids))
    originals = [each.original_id if isinstance(each, DuplicateOf) else None for each in verdicts]
    return batch.append_column("repeats", pa.array(originals, pa.string()))


def main() -> None:
    """Print how many rows of Parquet files are the first of their kind."""
    with Deduplicator() as seen:
        for file in sys.argv[1:]:
            first = sum(
                with_originals(batch, seen).column("repeats").null_count
                for batch in pq.ParquetFile(file).iter_batches(columns=["id", "text"])
            )
            print(f"{file}: {first} rows are the first of their kind")


if __name__ == "__main__":
    main()
