"""The state of a shard: entries and progress, in the changelog, in RocksDB, in segment files."""
