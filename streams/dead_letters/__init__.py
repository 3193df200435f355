"""Records that could not be read: what is on their topic, a summary, and sending them again.

For ``firstseen dlq``. The worker writes dead letters in ``streams.output``.
"""
