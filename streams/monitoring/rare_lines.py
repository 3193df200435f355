"""Lines of the log about what may happen with every record: the first, and then ever fewer."""

from __future__ import annotations

import logging


class RareLines:
    """Counts what happens, and logs a line when the count has doubled since the last one."""

    def __init__(self, logger: logging.Logger, message: str) -> None:
        """``message`` has a place for the count, ``%d``, and one for the last case, ``%s``."""
        self._logger = logger
        self._message = message
        self._count = 0
        self._next = 1

    def note(self, case: object, count: int = 1) -> None:
        """Note that it happened so often again; ``case``: the last time, for people."""
        self._count += count
        if count and self._count >= self._next:
            self._next = 2 * self._count
            self._logger.warning(self._message, self._count, case)
