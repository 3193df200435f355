"""How good the answers are: labelled documents through the real deduplicator, and its figures."""
