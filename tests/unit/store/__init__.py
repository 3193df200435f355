"""The state of a shard: columns and records as bytes, RocksDB, changelog and recovery."""
