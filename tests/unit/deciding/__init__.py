"""Tests of ``streams.deciding``."""
