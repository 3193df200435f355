"""The shell of Firstseen: Kafka, Faust, RocksDB, metrics and the command line around the core.

``worker`` has the path of a document, from top to bottom; docs/architecture.md follows a record
through all folders.
"""
