"""``firstseen produce``: send files, folders or standard input to the raw topic."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from streams.cli import options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streams.files.document_files import InputDocuments
    from streams.kafka.document_sender import DocumentSender

_SHOWN_MAX = 3


@click.command(short_help="Send files, folders or standard input to the raw topic.")
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@click.option("--topic", metavar="NAME", help="Target topic. [default: topics.raw]")
@options.number_option("--rate", click.FloatRange(0.001, 1e6), "Maximum documents per second.")
@options.number_option("--limit", click.IntRange(min=1), "Stop after N documents.")
@options.timeout_option
@options.json_option
@options.with_settings
def command(
    settings: options.Settings,
    *,
    files: tuple[str, ...],
    topic: str | None,
    rate: float | None,
    limit: int | None,
    timeout_seconds: float,
    as_json: bool,
) -> None:
    """Send the documents of each FILE to the raw topic, and wait for all acknowledgements.

    A FILE has a JSON object a line ("text", and if there is one "id", which becomes the key); it is
    read as gzip if it ends in .gz, and - is standard input. Lines are sent unchanged, including
    invalid ones, which become dead letters. Empty lines are skipped.

    A folder has one document a file: the text is the file's content, the id its path in the folder.
    Hidden files are left out.

    Exit code 0 if all documents were acknowledged, 1 if some were too large to send, 69 without a
    broker.

    \b
    Examples:
      firstseen produce news.jsonl.gz
      firstseen produce articles/ --rate 100
      zcat *.gz | firstseen produce - --set fields.text=body --set fields.id=url
      firstseen produce news.jsonl --topic other-topic --limit 10 --json
    """  # noqa: D301 - \b is click's mark for "leave the lines as they are"
    from streams.files.document_files import InputDocuments
    from streams.kafka.document_sender import longest_value_bytes
    from streams.terminal.layout import counted, progress_bar

    topic = topic or settings.topics.raw
    documents = InputDocuments(files, settings.fields, longest_value_bytes(settings))
    too_large: list[str] = []
    value_bytes = count = 0
    with (
        raw_sender(settings, topic, rate, timeout_seconds) as (sender, began),
        progress_bar() as move,
    ):
        for record in documents:
            if record.value is None:
                too_large.append(f"{record.where}: {record.size_bytes:,} bytes")
                continue
            sender.send(record.key, record.value, record.where)
            value_bytes += record.size_bytes
            count += 1
            step = counted(count, "document")
            move(step, documents.bytes_read, documents.total_bytes)
            if count == limit:
                break
        sender.finish()
    seconds = time.monotonic() - began
    too_large += [f"{where}: larger than the broker takes" for where in sender.refused]
    summary = {
        "topic": topic,
        "documents": sender.acknowledged,
        "bytes": value_bytes,
        "seconds": round(seconds, 3),
        "documents_per_second": round(sender.acknowledged / max(seconds, 1e-3), 1),
        "unreadable": documents.unreadable,
        "blank_lines": documents.blank_lines,
        "too_large": len(too_large),
    }
    if as_json:
        options.write_json("produce", summary)
    else:
        _show(topic, sender.acknowledged, seconds, documents)
    if too_large:
        shown = "\n  ".join(too_large[:_SHOWN_MAX])
        click.echo(f"firstseen: not sent, too large: {len(too_large):,}\n  {shown}", err=True)
        click.get_current_context().exit(1)


@contextmanager
def raw_sender(
    settings: options.Settings, topic: str, rate: float | None, timeout_seconds: float
) -> Iterator[tuple[DocumentSender, float]]:
    """Yield a sender to an existing topic, and the time at which sending begins."""
    from streams.kafka.connection import connect_admin
    from streams.kafka.document_sender import DocumentSender
    from streams.topics.admin import TopicsError, can_administer, partitions_of

    admin = connect_admin(settings, timeout_seconds, lambda text: click.echo(text, err=True))
    is_embedded = not can_administer(admin)
    if not is_embedded and not partitions_of(admin, [topic]):
        raise TopicsError(f"topic {topic} is missing: run 'firstseen topics create'")
    began = time.monotonic()
    with DocumentSender(settings, topic, paced=is_embedded, per_second=rate) as sender:
        yield sender, began


def _show(topic: str, sent: int, seconds: float, documents: InputDocuments) -> None:
    from streams.terminal.layout import counted

    per_second = sent / max(seconds, 1e-3)
    documents_sent = counted(sent, "document")
    click.echo(f"{documents_sent} sent to {topic} in {seconds:.1f} s ({per_second:,.0f} a second)")
    if documents.blank_lines:
        click.echo(f"  blank lines skipped: {documents.blank_lines:,}")
    if documents.unreadable:
        click.echo(
            f"  not readable as a document: {documents.unreadable:,}; they were sent as they are, "
            "the filter makes dead letters of them"
        )
