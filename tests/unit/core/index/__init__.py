"""Tests of the index of a worker: what look-ups find."""
