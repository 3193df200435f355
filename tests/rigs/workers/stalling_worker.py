"""A worker whose steps stop in silence, while its heartbeats go on.

What is put out waits for ever once a record holds the word ``STALL``, and the event loop stands
still once one holds ``BLOCK``.
``python -m tests.rigs.workers.stalling_worker [OPTION…]`` takes the options of ``firstseen
worker``; it ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Sequence

from streams import worker
from streams.cli.main import main
from streams.cli.worker_launcher import end_when_orphaned
from streams.intake.raw_records import RawRecords
from streams.pipeline import Pipeline

STALL = b"STALL"
BLOCK = b"BLOCK"
LONG_SECONDS = 600


class StallingPipeline(Pipeline):
    """Works until it meets the word."""

    stalled = False

    async def fingerprint(self, batch: Sequence[RawRecords]) -> None:
        """Stop where one of the records says so."""
        messages = (message for records in batch for message in records.messages)
        values = b" ".join(message.value() or b"" for message in messages)
        self.stalled = self.stalled or STALL in values
        if BLOCK in values:
            time.sleep(LONG_SECONDS)  # noqa: ASYNC251 - the loop is to stand still
        await super().fingerprint(batch)

    async def put_out(self) -> None:
        """Wait for what never comes, once a record has said so."""
        if self.stalled:
            await asyncio.Event().wait()
        await super().put_out()


if __name__ == "__main__":
    vars(worker)["Pipeline"] = StallingPipeline
    threading.Thread(target=end_when_orphaned, daemon=True).start()
    sys.exit(main(["worker", *sys.argv[1:]]))
