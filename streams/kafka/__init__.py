"""Kafka through librdkafka: clients and their configuration, the log's reader and appender."""
