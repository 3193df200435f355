"""Tests of the repository itself: source tree, documentation, benchmarks, deployment."""
