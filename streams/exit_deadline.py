"""The end of a process that is to end and does not.

The last thing that a worker does is to leave its group and close its connections. A broker that
stands still lets it wait for minutes. Nothing depends on that: what counts is committed, or will be
done again, as after SIGKILL.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

logger = logging.getLogger(__name__)


class ExitDeadline:
    """Ends the process some time after ``begin``, unless ``lift`` came before.

    ``last_words`` says what there is to say, and returns the exit code.
    """

    def __init__(self, seconds: float, last_words: Callable[[], int]) -> None:
        """Begin with ``begin``."""
        self._seconds = seconds
        self._last_words = last_words
        self._lifted = threading.Event()
        self._thread = threading.Thread(target=self._run, name="exit deadline", daemon=True)

    def begin(self) -> None:
        """Let the time run; once."""
        self._thread.start()

    def lift(self) -> None:
        """The process comes to its end by itself."""
        self._lifted.set()

    def _run(self) -> None:
        if self._lifted.wait(self._seconds):
            return
        logger.warning(
            "the broker did not confirm within %g s that this worker left: it ends anyway, and "
            "nothing is lost",
            self._seconds,
        )
        os._exit(self._last_words())
