"""Raw records: from the raw topic to batches of one partition each."""
