"""Tests of the command line, called as a user calls it."""
