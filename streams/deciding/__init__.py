"""What only the leader does: it appends control records and trims the log.

``streams.pipeline`` calls it; the decisions themselves are in ``simhash_core.log``.
"""
