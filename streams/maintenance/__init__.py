"""Maintenance for ``firstseen index``: figures, checks, checkpoints, export, load, a new log.

A command that changes an index joins its group and commits one transaction
(``index_transaction``), so it cannot run beside a worker.
"""
