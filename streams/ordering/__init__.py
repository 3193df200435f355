"""Ordering: documents become packets, packets go to the log, the log is read and looked up.

Called by ``streams.app``; the protocol itself is in ``simhash_core.log``.
"""
