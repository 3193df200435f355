"""Brokers, workers and checks of outputs that tests of several folders use."""
