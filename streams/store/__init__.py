"""What a shard remembers: its entries and its progress, in the changelog and in RocksDB.

- ``columns_codec``: columns of documents to bytes and back
- ``entry_block``, ``entry_rows``: entries as columns, and as rows
- ``state_codec``: keys and values of a shard's store
- ``changelog_codec``: records of the changelog
- ``shard_store``: one shard in RocksDB; ``shard_directory`` opens it
- ``changelog_reader``, ``recovery``: a store is brought up to the end of its changelog
- ``changelog_tail``: the last progress in a changelog
- ``shard_stores``: the stores of a worker
"""
