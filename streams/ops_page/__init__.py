"""The ops page of a worker: status, latest duplicates, and look-ups of texts; all read-only."""
