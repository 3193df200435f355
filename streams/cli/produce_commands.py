"""``firstseen produce`` and ``load``: send files, or generated documents, to the raw topic."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from streams.cli import options
from streams.terminal.layout import counted, progress_bar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streams.kafka.document_sender import DocumentSender

_SHOWN_MAX = 3


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@click.option("--topic", metavar="NAME", help="Target topic. [default: topics.raw]")
@options.number_option("--rate", click.FloatRange(0.001, 1e6), "Maximum documents per second.")
@options.number_option("--limit", click.IntRange(min=1), "Stop after N documents.")
@options.with_broker
def produce(
    settings: options.Settings,
    *,
    files: tuple[str, ...],
    topic: str | None,
    rate: float | None,
    limit: int | None,
) -> None:
    """Send the documents of each FILE to the raw topic, and wait for all acknowledgements.

    A FILE has one JSON object per line, with "text" and optionally "id", which becomes the key. It
    is unpacked if its name ends in .gz or .zst; - is standard input. Lines are sent unchanged,
    including invalid ones, which become dead letters. Empty lines are skipped.

    A folder has one document per file: the text is the file's content, the id its path in the
    folder. Hidden files are skipped.

    Exit code 0 if all documents were acknowledged, 1 if some were too large to send, 69 without a
    broker.

    \b
    Examples:
      firstseen produce news.jsonl.gz
      firstseen produce articles/ --rate 100
      zcat *.gz | firstseen produce - --set fields.text=body --set fields.id=url
      firstseen produce news.jsonl --topic other-topic --limit 10 --json
    """
    from streams.files.document_files import InputDocuments
    from streams.kafka.document_sender import longest_value_bytes

    topic = topic or settings.topics.raw
    documents = InputDocuments(files, settings.fields, longest_value_bytes(settings))
    too_large: list[str] = []
    value_bytes = count = 0
    with _raw_sender(settings, topic, rate) as (sender, began), progress_bar() as move:
        for record in documents:
            if record.value is None:
                too_large.append(f"{record.where}: {record.size_bytes:,} bytes")
                continue
            sender.send(record.key, record.value, record.where)
            value_bytes += record.size_bytes
            count += 1
            move(counted(count, "document"), documents.bytes_read, documents.total_bytes)
            if count == limit:
                break
        sender.finish()
        summary, text = _summary(sender, topic, began, "document")
    too_large += [f"{where}: larger than the broker accepts" for where in sender.refused]
    unreadable, blank_lines = documents.unreadable, documents.blank_lines
    summary |= {
        "bytes": value_bytes,
        "unreadable": unreadable,
        "blank_lines": blank_lines,
        "too_large": len(too_large),
    }
    if blank_lines:
        text += f"\n  blank lines skipped: {blank_lines:,}"
    if unreadable:
        text += (
            f"\n  not readable as a document: {unreadable:,}; they were sent unchanged and become "
            "dead letters"
        )
    options.write_answer("produce", summary, text)
    if too_large:
        shown = "\n  ".join(too_large[:_SHOWN_MAX])
        options.announce(f"not sent, too large: {len(too_large):,}\n  {shown}")
        click.get_current_context().exit(1)


@click.command()
@options.number_option(
    "--documents", click.IntRange(1, 100_000_000), "Number of documents.", default=3_000
)
@options.number_option("--rate", click.FloatRange(0.001, 1e6), "Maximum documents per second.")
@options.number_option(
    "--seed", click.IntRange(0), "Seed of the generated documents.", default=1, metavar="S"
)
@options.with_broker
def load(settings: options.Settings, *, documents: int, rate: float | None, seed: int) -> None:
    """Send generated documents to the raw topic, to test an installation.

    The documents are those of the demo: articles in Chinese and English, their copies, short posts,
    and a few broken records, which become dead letters.

    Exit code 0 if all documents were acknowledged, 1 if the raw topic is missing, 69 without a
    broker.

    \b
    Examples:
      firstseen load
      firstseen load --documents 100000 --rate 500 --seed 2 --broker kafka-1:9092
    """
    from streams.corpus.corpus import generate

    topic = settings.topics.raw
    with _raw_sender(settings, topic, rate) as (sender, began):
        left = documents
        for record in generate(seed, sys.maxsize):
            if not left:
                break
            # A record without a value would be a tombstone, not a document.
            if record.value is not None:
                sender.send(record.key, record.value, record.id or "a record without a key")
                left -= 1
        sender.finish()
        summary, text = _summary(sender, topic, began, "generated document")
    options.write_answer("load", summary | {"seed": seed}, text)


@contextmanager
def _raw_sender(
    settings: options.Settings, topic: str, rate: float | None
) -> Iterator[tuple[DocumentSender, float]]:
    """Yield a sender to an existing topic, and the time at which sending begins."""
    from streams.kafka.document_sender import DocumentSender
    from streams.topics.admin import TopicsError, can_administer, partitions_of

    admin = options.connect(settings)
    is_embedded = not can_administer(admin)
    if not is_embedded and not partitions_of(admin, [topic]):
        raise TopicsError(f"topic {topic} is missing: run 'firstseen topics create'")
    began = time.monotonic()
    with DocumentSender(settings, topic, paced=is_embedded, per_second=rate) as sender:
        yield sender, began


def _summary(
    sender: DocumentSender, topic: str, began: float, what: str
) -> tuple[dict[str, object], str]:
    """Return the figures of the sent records, for JSON and as a line."""
    count, seconds = sender.acknowledged, time.monotonic() - began
    rate = count / max(seconds, 1e-3)
    figures: dict[str, object] = {
        "topic": topic,
        "documents": count,
        "seconds": round(seconds, 3),
        "documents_per_second": round(rate, 1),
    }
    text = f"{counted(count, what)} sent to {topic} in {seconds:.1f} s ({rate:,.0f} per second)"
    return figures, text
