"""The index: documents by bucket, and the look-up of whole packets.

- ``prints``: the columns of documents that an index holds, and their buckets
- ``segment``: sorted buckets of many documents; ``bucket_columns`` and ``hot_buckets`` are its
  columns
- ``document_index``: segments and a memtable of new documents
- ``look_up``: from a packet to the nearest match of each of its documents
"""
