"""Brokers, workers and judges that tests of several folders use."""
