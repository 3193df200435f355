"""Tests of block tables: one contract for all, and what is RocksDB's own."""
