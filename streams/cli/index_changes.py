"""``firstseen index load``, ``drop`` and ``new-log``: commands that change an index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from streams.cli.json_output import announce, write_answer
from streams.cli.options import json_option, shard_option, timeout_option, with_settings

if TYPE_CHECKING:
    from streams.settings.settings import Settings


@click.command(short_help="Load documents into an index.")
@with_settings
@click.argument("file", required=False)
@click.option("--topic", metavar="NAME", help="Load all documents of a topic, such as unique.")
@click.option(
    "--form",
    type=click.Choice(["auto", "texts", "fingerprints"]),
    default="auto",
    show_default=True,
    help="Form of the lines of FILE; auto decides by the first line.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 256),
    metavar="N",
    help="Processes that fingerprint the texts of FILE; one for each core unless given.",
)
@click.option("--add", "adds", is_flag=True, help="Add to an index that has documents.")
@click.option(
    "--begin",
    metavar="WHERE",
    help="Where workers start to read the raw topic: earliest, latest, or an application id, to "
    "continue from its committed offsets. Required if the raw topic has records.",
)
@timeout_option
@json_option
def load(  # noqa: PLR0913 - one for each option
    settings: Settings,
    *,
    file: str | None,
    topic: str | None,
    form: Literal["auto", "texts", "fingerprints"],
    jobs: int | None,
    adds: bool,
    begin: str | None,
    timeout_seconds: float,
    as_json: bool,
) -> None:
    """Load documents into an index as if they had been seen before.

    FILE (- is standard input, .gz is read as gzip) has a JSON object a line: a text with the fields
    that a worker reads; or a fingerprint ("id", "fingerprint" in hexadecimal, and "sketch" if the
    index has a second check); or it is an export. --topic loads the documents of a topic: load
    unique of another application to change settings of the index, or to have fewer partitions. The
    command does not compare the loaded documents with each other.

    The command loads everything in one transaction, or nothing. Stop all workers of the index
    before. For an index that already has documents, use --add.

    \b
    Examples:
      firstseen index load archive.jsonl.gz
      firstseen index load seen.export.jsonl.gz --set index.distance=48
      firstseen index load --topic unique --application-id second --begin firstseen
    """  # noqa: D301 - \b is click's mark for "leave the lines as they are"
    from simhash_core.index_digest import index_digest
    from simhash_core.text.fingerprinter import Fingerprinter
    from streams.care.load_sources import FileSource, LoadSource, TopicSource
    from streams.care.loading import Loading
    from streams.cli.index_view import load_text
    from streams.kafka.connection import connect_admin
    from streams.terminal.progress_bar import progress_bar

    if (file is None) == (topic is None):
        raise click.UsageError("say what to load: a FILE, or --topic NAME")
    admin = connect_admin(settings, timeout_seconds, announce)
    fingerprinter = Fingerprinter(settings.index_profile())
    loading = Loading(settings, admin, fingerprinter.identity, adds=adds, begin=begin)
    source: LoadSource
    if topic is not None:
        source = TopicSource(settings, fingerprinter, admin, topic)
    else:
        assert file is not None
        source = FileSource(settings, fingerprinter, file, form, jobs)
    with progress_bar() as show:
        account = loading.run(source, show)
    content = {
        "application": settings.application_id,
        "index": index_digest(fingerprinter.identity),
        "documents": account.documents,
        "refused": dict(account.refused),
        "shards": {str(partition): count for partition, count in account.shards.items()},
        "begins": {str(partition): offset for partition, offset in account.begins.items()},
        "log_offset": account.log_offset,
        "seconds": account.seconds,
    }
    write_answer("index-load", content, load_text(account), as_json=as_json)


@click.command(short_help="Delete stores of shards, or a whole index.")
@with_settings
@shard_option
@click.option(
    "--everything",
    is_flag=True,
    help="Delete the whole index, including log, changelog and the group's offsets. Everything "
    "that was seen is forgotten.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@timeout_option
@json_option
def drop(
    settings: Settings,
    *,
    shards: tuple[int, ...],
    everything: bool,
    yes: bool,
    timeout_seconds: float,
    as_json: bool,
) -> None:
    """Delete the stores of the shards on this machine. Workers rebuild them from the changelog.

    With --everything the whole index is deleted. Workers that you start later build a new one and
    read the raw topic from its beginning. Raw topic and outputs stay as they are.

    \b
    Examples:
      firstseen index drop --shard 3
      firstseen index drop --everything --application-id trial
    """  # noqa: D301 - \b is click's mark for "leave the lines as they are"
    from simhash_core.errors import UsageError
    from streams.care.dropping import drop_index, drop_stores
    from streams.care.local_shards import local_shards
    from streams.cli.index_view import drop_text
    from streams.kafka.connection import connect_admin
    from streams.terminal.progress_bar import progress_bar

    if everything and shards:
        raise click.UsageError("--everything is the whole index: leave --shard out")
    try:
        local = local_shards(settings, shards)
    except UsageError:
        if not everything:
            raise
        local = []
    what = f"the index of {settings.application_id}" if everything else f"{len(local)} stores"
    if not yes:
        click.confirm(f"Delete {what}?", abort=True, err=True)
    if everything:
        admin = connect_admin(settings, timeout_seconds, announce)
        with progress_bar() as show:
            dropped = drop_index(settings, admin, local, show)
    else:
        dropped = drop_stores(settings, local)
    write_answer("index-drop", dropped, drop_text(dropped), as_json=as_json)


@click.command("new-log", short_help="Start a new log after the old one was lost or truncated.")
@with_settings
@click.option("--force", is_flag=True, help="Although the log that is there will do.")
@timeout_option
@json_option
def new_log(settings: Settings, *, force: bool, timeout_seconds: float, as_json: bool) -> None:
    """Start a new log from the state of the shards, after the old log was lost or truncated.

    Committed outputs stay. Documents in flight are sent and decided again. So a duplicate on the
    output topic may name a document whose own verdict was lost and is decided again. Stop all
    workers before. If the log topic was deleted, run 'firstseen topics create' first.

    \b
    Examples:
      firstseen topics create && firstseen index new-log
    """  # noqa: D301 - \b is click's mark for "leave the lines as they are"
    from simhash_core.text.fingerprinter import Fingerprinter
    from streams.care.new_log import begin_new_log
    from streams.cli.index_view import new_log_text
    from streams.kafka.connection import connect_admin
    from streams.terminal.progress_bar import progress_bar

    admin = connect_admin(settings, timeout_seconds, announce)
    identity = Fingerprinter(settings.index_profile()).identity
    with progress_bar() as show:
        begun = begin_new_log(settings, admin, identity, show, force=force)
    write_answer("index-new-log", begun, new_log_text(begun), as_json=as_json)
