"""What needs no broker: deduplication of files, evaluation, explanations, plans, idf models."""
