"""Tests of a shard's state: columns and records as bytes, RocksDB, changelog and recovery."""
