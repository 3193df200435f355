"""Care of an index by an operator: figures, checks, checkpoints, export, load, a new log."""
