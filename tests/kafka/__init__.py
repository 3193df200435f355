"""Whole workers on a real Kafka: kills, pauses, rebalances, security."""
