"""Benchmarks of Firstseen and its alternatives: see ``python -m benchmarks --help``."""
