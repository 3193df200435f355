"""Compares the index with others, at up to 100 million documents."""
