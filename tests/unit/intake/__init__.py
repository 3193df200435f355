"""Tests of the way from Kafka to the agents: nothing is passed over, nothing passes twice."""
