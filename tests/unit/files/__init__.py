"""Tests of files that commands write."""
