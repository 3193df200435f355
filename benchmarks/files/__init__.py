"""Deduplication of a file beside other libraries: documents a second, and what is found."""
