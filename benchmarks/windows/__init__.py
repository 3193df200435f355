"""A year of documents in an index with a window, and in one without."""
