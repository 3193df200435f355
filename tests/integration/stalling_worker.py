"""A worker whose agents stop in silence, as Faust's do now and then, while its heartbeats go on.

The fingerprint agent waits for ever once a record holds the word ``STALL``.
``python -m tests.integration.stalling_worker [OPTION…]`` takes the options of ``firstseen worker``;
it ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Sequence

from streams import worker
from streams.cli.main import main
from streams.demo.worker_launcher import _end_when_orphaned
from streams.fingerprint_stage import RawInput
from streams.pipeline import Pipeline

STALL = b"STALL"


class StallingPipeline(Pipeline):
    """Fingerprints until it meets the word."""

    async def fingerprint(self, inputs: Sequence[RawInput]) -> set[str]:
        """Wait for what never comes, where one of the records says so."""
        if any(STALL in (record.value or b"") for _, record in inputs):
            await asyncio.Event().wait()
        return await super().fingerprint(inputs)


if __name__ == "__main__":
    vars(worker)["Pipeline"] = StallingPipeline
    threading.Thread(target=_end_when_orphaned, daemon=True).start()
    sys.exit(main(["worker", *sys.argv[1:]]))
