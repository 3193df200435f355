"""From documents to the order of the log."""
