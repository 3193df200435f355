"""Tests of the benchmarks: that they run and say what they measured, not how fast anything is."""
