"""``firstseen load``: send generated documents to the raw topic, to try out what was installed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from streams.cli.options import json_option, timeout_option, with_settings, write_json

if TYPE_CHECKING:
    from streams.settings.settings import Settings

_NUMBER_MAX = 100_000_000


@click.command(short_help="Send generated documents to the raw topic.")
@click.option(
    "--documents",
    type=click.IntRange(1, _NUMBER_MAX),
    default=3_000,
    show_default=True,
    metavar="N",
    help="How many.",
)
@click.option(
    "--rate", type=click.FloatRange(0.001, 1e6), metavar="N", help="Maximum documents per second."
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    metavar="S",
    help="Seed of the generated documents.",
)
@timeout_option
@json_option
@with_settings
def command(
    settings: Settings,
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
    from streams.corpus.corpus import generate
    from streams.kafka.connection import connect_admin
    from streams.kafka.document_sender import DocumentSender
    from streams.topics.admin import TopicsError, can_administer, partitions_of

    topic = settings.topics.raw
    admin = connect_admin(settings, timeout_seconds, lambda text: click.echo(text, err=True))
    is_embedded = not can_administer(admin)
    if not is_embedded and not partitions_of(admin, [topic]):
        raise TopicsError(f"topic {topic} is missing: run 'firstseen topics create'")
    began = time.monotonic()
    with DocumentSender(settings, topic, paced=is_embedded, per_second=rate) as sender:
        for record in generate(seed, documents):
            # A record without a value would be a tombstone, not a document.
            if record.value is not None:
                sender.send(record.key, record.value, record.id or "a record without a key")
        sender.finish()
    seconds = time.monotonic() - began
    per_second = sender.acknowledged / max(seconds, 1e-3)
    if as_json:
        summary = {
            "topic": topic,
            "documents": sender.acknowledged,
            "seconds": round(seconds, 3),
            "documents_per_second": round(per_second, 1),
            "seed": seed,
        }
        write_json("load", summary)
    else:
        click.echo(
            f"{sender.acknowledged:,} generated documents sent to {topic} in {seconds:.1f} s "
            f"({per_second:,.0f} a second)"
        )
