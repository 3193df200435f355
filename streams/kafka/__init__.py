"""Kafka through librdkafka: configuration, connections, readers, producers, transactions.

Every higher folder that connects to a broker uses these clients; no other code creates one.
"""
