"""Brokers that the tests run against: the embedded one and a real Apache Kafka."""
