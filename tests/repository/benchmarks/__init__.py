"""Tests that the benchmarks run and report their measurements, not how fast anything is."""
