"""Tests of the source tree itself: who may import whom, what a module may be called."""
