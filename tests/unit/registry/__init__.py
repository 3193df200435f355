"""Tests of ``streams.registry``."""
