"""Whole workers on the in-process broker.

A test with the fixture ``broker`` runs on a real Kafka too.
"""
