"""Tests of what is put out, and of the commits that make it last."""
