"""Tests of the stages of a worker."""
