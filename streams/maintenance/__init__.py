"""Maintenance for ``firstseen index``: figures, checks, checkpoints, export, load, a new log.

A command that changes an index joins its group and commits one transaction
(``index_transaction``), so it cannot run beside a worker.
"""

from __future__ import annotations

from collections.abc import Callable

Report = Callable[[str, int, int], None]
"""Called with a step in words, the amount done, and the total (0: unknown)."""
