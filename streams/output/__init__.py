"""Verdicts to the records that go out, and the transactions that make them last."""
