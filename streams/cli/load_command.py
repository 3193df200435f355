"""``firstseen load``: send generated documents to the raw topic, to try out what was installed."""

from __future__ import annotations

import sys
import time

import click

from streams.cli import options

_NUMBER_MAX = 100_000_000


@click.command(short_help="Send generated documents to the raw topic.")
@options.number_option("--documents", click.IntRange(1, _NUMBER_MAX), "How many.", default=3_000)
@options.number_option("--rate", click.FloatRange(0.001, 1e6), "Maximum documents per second.")
@options.number_option(
    "--seed", click.IntRange(0), "Seed of the generated documents.", default=1, metavar="S"
)
@options.timeout_option
@options.json_option
@options.with_settings
def command(
    settings: options.Settings,
    *,
    documents: int,
    rate: float | None,
    seed: int,
    timeout_seconds: float,
    as_json: bool,
) -> None:
    """Send generated documents to the raw topic, to try out an installation.

    They are those of the demo: articles in Chinese and English, their copies, short posts, and a
    few broken records, of which dead letters are made.

    Exit code 0 when all is acknowledged, 1 when the raw topic is missing, 69 without a broker.

    \b
    Examples:
      firstseen load
      firstseen load --documents 100000 --rate 500 --seed 2 --broker kafka-1:9092
    """  # noqa: D301 - \b is click's mark for "leave the lines as they are"
    from streams.cli.produce_command import raw_sender
    from streams.corpus.corpus import generate

    topic = settings.topics.raw
    with raw_sender(settings, topic, rate, timeout_seconds) as (sender, began):
        left = documents
        for record in generate(seed, sys.maxsize):
            if not left:
                break
            # A record without a value would be a tombstone, not a document.
            if record.value is not None:
                sender.send(record.key, record.value, record.id or "a record without a key")
                left -= 1
        sender.finish()
    seconds = time.monotonic() - began
    per_second = sender.acknowledged / max(seconds, 1e-3)
    summary = {
        "topic": topic,
        "documents": sender.acknowledged,
        "seconds": round(seconds, 3),
        "documents_per_second": round(per_second, 1),
        "seed": seed,
    }
    text = (
        f"{sender.acknowledged:,} generated documents sent to {topic} in {seconds:.1f} s "
        f"({per_second:,.0f} a second)"
    )
    options.write_answer("load", summary, text, as_json=as_json)
