"""Whole workers on the in-process broker.

A test that asks for ``broker`` runs on a real Kafka as well.
"""
