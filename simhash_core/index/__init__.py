"""The index: documents by the buckets that they are in, and the look-up of whole packets.

- ``prints``: what of documents an index holds: fingerprints, keys of bands, times
- ``bucket_columns``, ``hot_buckets``, ``sequence_column``: columns of a segment
- ``segment``: sorted buckets of many documents
- ``document_index``: segments and a small table of new documents
- ``look_up``: from a packet to the nearest match of each of its documents
"""
