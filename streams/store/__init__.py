"""The state of a shard: its entries and its progress, in the changelog and in RocksDB.

- ``row_codec``, ``columns_codec``: rows and columns as bytes
- ``row_store``, ``rocksdb_store``: the database, its interface and its errors
- ``shard_store``, ``entry_batch``: one shard in RocksDB, and its commits; ``shard_directory`` opens
  it
- ``changelog_codec``, ``changelog``: records of the changelog, and how they are read
- ``recovery``: brings a store to the end of its changelog
- ``shard_segments``, ``compaction``: segment files of the index
"""
