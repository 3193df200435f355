"""``firstseen index``: figures, checks, checkpoints, export, load and a new log of an index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from streams.cli.options import with_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.settings.settings import Settings


@click.group()
def command() -> None:
    """Look after an index: figures, checks, checkpoints, export, load, a new log.

    Commands that only look (stats, verify, export) and checkpoint work beside workers that run.
    Those that change an index refuse while it has workers.
    """


def _json_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")(function)


def _shard_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--shard",
        "shards",
        type=click.IntRange(0, 65_535),
        multiple=True,
        metavar="P",
        help="Only the shard of raw partition P; repeatable. All that there are unless given.",
    )(function)


def _timeout_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--timeout",
        "timeout_seconds",
        type=click.FloatRange(0.1, 300),
        default=15.0,
        show_default=True,
        metavar="SECONDS",
        help="Longest wait for a broker.",
    )(function)


@command.command(short_help="Load documents into an index.")
@with_settings
@click.argument("file", required=False)
@click.option("--topic", metavar="NAME", help="Load all documents of a topic, such as unique.")
@click.option(
    "--form",
    type=click.Choice(["auto", "texts", "fingerprints"]),
    default="auto",
    show_default=True,
    help="What the lines of FILE are; auto: the first line tells.",
)
@click.option("--add", "adds", is_flag=True, help="Add to an index that has documents.")
@click.option(
    "--begin",
    metavar="WHERE",
    help="Where workers begin to read the raw topic: earliest, latest, or an application id, to go "
    "on where that one has got to. Needed where the raw topic has records.",
)
@_timeout_option
@_json_option
def load(
    settings: Settings,
    *,
    file: str | None,
    topic: str | None,
    form: Literal["auto", "texts", "fingerprints"],
    adds: bool,
    begin: str | None,
    timeout_seconds: float,
    as_json: bool,
) -> None:
    """Load documents into an index, so that what repeats them is a duplicate.

    FILE (- is standard input, .gz is read as gzip) has a JSON object a line: a text with the fields
    that a worker reads; or a fingerprint ("id", "fingerprint" in hexadecimal, and "sketch" where
    the index confirms by sketches); or it is an export. With --topic the documents of a topic are
    loaded: with unique of another application, that is the way to other settings of the index, or
    to fewer partitions. Documents that are loaded are not compared with each other.

    All of it is loaded, in one transaction, or nothing. Workers of the index must not run. An index
    that has documents is refused without --add.

    \b
    Examples:
      firstseen index load archive.jsonl.gz
      firstseen index load seen.export.jsonl.gz --set index.distance=48
      firstseen index load --topic unique --application-id second --begin firstseen
    """  # noqa: D301 - \b is click's mark for "leave the lines as they are"
    from simhash_core.text.fingerprinter import Fingerprinter
    from streams.care.load_sources import FileSource, LoadSource, TopicSource
    from streams.care.loading import Loading
    from streams.cli.index_view import load_text
    from streams.kafka.connection import connect_admin
    from streams.terminal.progress_bar import progress_bar

    if (file is None) == (topic is None):
        raise click.UsageError("say what to load: a FILE, or --topic NAME")
    admin = connect_admin(settings, timeout_seconds, _announce)
    fingerprinter = Fingerprinter(settings.index_profile())
    loading = Loading(settings, admin, fingerprinter.identity, adds=adds, begin=begin)
    source: LoadSource
    if topic is not None:
        source = TopicSource(settings, fingerprinter, admin, topic)
    else:
        assert file is not None
        source = FileSource(settings, fingerprinter, file, form)
    with progress_bar() as show:
        account = loading.run(source, show)
    content = {
        "application": settings.application_id,
        "index": fingerprinter.identity,
        "documents": account.documents,
        "refused": dict(account.refused),
        "shards": {str(partition): count for partition, count in account.shards.items()},
        "begins": {str(partition): offset for partition, offset in account.begins.items()},
        "log_offset": account.log_offset,
        "seconds": account.seconds,
    }
    _tell("index-load", content, load_text(account), as_json=as_json)


def _tell(kind: str, content: dict[str, object], text: str, *, as_json: bool) -> None:
    from streams.cli.json_output import write_json

    if as_json:
        write_json(kind, content)
    else:
        click.echo(text)


def _announce(text: str) -> None:
    click.echo(f"firstseen: {text}", err=True)
