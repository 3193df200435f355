"""Measures the quality of the deduplicator on labelled documents."""
