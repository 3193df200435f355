"""The shell of Firstseen: Kafka, Faust, RocksDB, metrics and the command line around the core."""
