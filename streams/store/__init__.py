"""The state of a shard, which is in the changelog, in RocksDB and in segment files."""
