"""The shell of Firstseen: Kafka, Faust, RocksDB, metrics and the command line around the core.

``worker`` builds a worker, ``app`` has its four agents, ``pipeline`` what each agent does, and
``shard_sessions`` opens and closes shards. docs/architecture.md follows a record through all
folders.
"""
