"""Tests of the pure core: worked examples, properties, the protocol."""
