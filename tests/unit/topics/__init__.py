"""Tests of `streams.topics`."""
