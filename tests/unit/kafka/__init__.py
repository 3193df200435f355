"""Tests of the clients of the log, on real brokers."""
