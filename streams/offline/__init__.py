"""What needs no broker: deduplication of files, evaluation, explanations, plans, idf models.

The commands call it, and the ops page for ``pages``. ``evaluation`` measures the answers.
"""
