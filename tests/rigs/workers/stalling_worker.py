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

from streams.cli.main import main
from streams.cli.worker_launcher import end_when_orphaned
from streams.kafka.raw_consumer import RawRecords
from streams.worker import pipeline, process
from streams.worker.consume import Intake
from streams.worker.pipeline import Pipeline

STALL = b"STALL"
BLOCK = b"BLOCK"
LONG_SECONDS = 600

_stalled = threading.Event()


class StallingIntake(Intake):
    """Works until it meets the word."""

    def batch(self) -> list[RawRecords]:
        """Stop where one of the records says so."""
        batch = super().batch()
        messages = (message for records in batch for message in records.messages)
        values = b" ".join(message.value() or b"" for message in messages)
        if STALL in values:
            _stalled.set()
        if BLOCK in values:
            time.sleep(LONG_SECONDS)
        return batch


class StallingPipeline(Pipeline):
    """Commits until a record has said that it is to stop."""

    async def commit(self) -> None:
        """Wait for what never comes, once a record has said so."""
        if _stalled.is_set():
            await asyncio.Event().wait()
        await super().commit()


if __name__ == "__main__":
    vars(pipeline)["Intake"] = StallingIntake
    vars(process)["Pipeline"] = StallingPipeline
    threading.Thread(target=end_when_orphaned, daemon=True).start()
    sys.exit(main(["worker", *sys.argv[1:]]))
