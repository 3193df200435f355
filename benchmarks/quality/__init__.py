"""Compares detection quality on labelled files with that of other libraries."""
