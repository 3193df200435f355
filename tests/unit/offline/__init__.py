"""Tests of the evaluation, the tuning and the sizing of an index."""
