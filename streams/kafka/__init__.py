"""Kafka through librdkafka: configuration, connections, readers, producers, transactions.

Every higher folder that talks to a broker uses these clients; nothing else creates one.
"""
