"""Maintenance of an index: figures, checks, checkpoints, export, load, a new log.

``firstseen index`` calls it. What changes an index joins its group and commits in one transaction
(``index_transaction``), so it cannot run beside a worker.
"""
