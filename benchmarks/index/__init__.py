"""The index at up to 100 million documents, beside others: ``python -m benchmarks.index``."""
