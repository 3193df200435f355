"""A worker whose agents stop in silence, as Faust's do now and then, while its heartbeats go on.

The fingerprint agent waits for ever once a record holds the word ``STALL``, and the event loop with
it once one holds ``BLOCK``.
``python -m tests.integration.stalling_worker [OPTION…]`` takes the options of ``firstseen worker``;
it ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Sequence

from streams import worker
from streams.cli.main import main
from streams.demo.worker_launcher import _end_when_orphaned
from streams.fingerprint_stage import RawInput
from streams.pipeline import Pipeline

STALL = b"STALL"
BLOCK = b"BLOCK"
LONG_SECONDS = 600


class StallingPipeline(Pipeline):
    """Fingerprints until it meets the word."""

    async def fingerprint(self, inputs: Sequence[RawInput]) -> set[str]:
        """Wait for what never comes, where one of the records says so."""
        values = b" ".join(record.value or b"" for _, record in inputs)
        if STALL in values:
            await asyncio.Event().wait()
        if BLOCK in values:
            time.sleep(LONG_SECONDS)  # noqa: ASYNC251 - that is the fault
        return await super().fingerprint(inputs)


if __name__ == "__main__":
    vars(worker)["Pipeline"] = StallingPipeline
    threading.Thread(target=_end_when_orphaned, daemon=True).start()
    sys.exit(main(["worker", *sys.argv[1:]]))
