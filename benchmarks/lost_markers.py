"""Whether a Kafka loses the end of a transaction when a broker is away; without Firstseen.

::

    python -m benchmarks.lost_markers [--rounds 5] [--libs DIRECTORY]

The last line is one JSON object; the exit code is 1 where a transaction was left without its end
(docs/kafka.md).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from tests.rigs.brokers.kafka_broker import why_kafka_cannot_run
from tests.rigs.brokers.lost_markers import hung_transactions, kafka_version


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lost_markers")
    parser.add_argument("--rounds", type=int, default=5, help="how often a broker is killed (5)")
    parser.add_argument("--libs", type=Path, help="the jars of the Kafka to try (.kafka/libs)")
    chosen = parser.parse_args()
    if chosen.libs is not None:
        os.environ["FIRSTSEEN_KAFKA_LIBS"] = str(chosen.libs)
    reason = why_kafka_cannot_run()
    if reason is not None:
        parser.error(reason)
    with tempfile.TemporaryDirectory(prefix="lost-markers-") as directory:
        hung = hung_transactions(Path(directory), chosen.rounds)
    print(json.dumps({"kafka": kafka_version(), "rounds": chosen.rounds, "hung": hung}))
    return 1 if hung else 0


if __name__ == "__main__":
    sys.exit(main())
