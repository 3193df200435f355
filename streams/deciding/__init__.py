"""Deciding: what the leader does beside its part of the protocol in ``simhash_core.log``."""
