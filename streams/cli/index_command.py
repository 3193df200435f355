"""``firstseen index``: figures, checks, checkpoints, export, load and a new log of an index."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from simhash_core.errors import UsageError
from streams.cli import options
from streams.terminal.layout import counted, progress_bar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streams.maintenance.checkpoints import Checkpoint
    from streams.maintenance.dropping import Dropped
    from streams.maintenance.index_stats import IndexStats, StandbyStats
    from streams.maintenance.loading import LoadAccount
    from streams.maintenance.verification import Verified


@click.group()
def index() -> None:
    """Inspect, check, copy, load and repair an index.

    The commands stats, verify, export and checkpoint change nothing and can run beside workers. The
    others refuse to run while the index has workers.
    """


@index.command(short_help="Show figures of an index: documents, buckets, bytes, times.")
@options.with_broker
@options.shard_option
def stats(settings: options.Settings, *, shards: tuple[int, ...]) -> None:
    """Show figures of the shards on this machine: documents, buckets, bytes, times, progress.

    The command reads local files. With the setting standbys, it also queries the broker for
    the shards of the index that have no open standby. Buckets are counted over all local shards
    together. A look-up in a large bucket is slow.

    \b
    Examples:
      firstseen index stats
      firstseen index stats --shard 0 --json | jq .fullest
    """
    from simhash_core.text.fingerprinter import Fingerprinter
    from streams.maintenance.index_stats import index_stats, standby_stats
    from streams.store.shard_directory import local_shards

    local = local_shards(settings, shards)
    fingerprinter = Fingerprinter(settings.index_profile())
    identity, wait = fingerprinter.identity, options.timeout_seconds()
    standbys = standby_stats(settings, identity, wait, options.announce)
    application, window = settings.application_id, settings.index.window
    with progress_bar() as show:
        figures = index_stats(
            application, local, fingerprinter.scheme, identity, window, standbys, show
        )
    options.write_answer("index-stats", figures, _stats_view(figures))


def _stats_view(stats: IndexStats) -> list[str]:
    each = "" if stats.bytes_per_document is None else f", {stats.bytes_per_document:,.0f} each"
    lines = [
        f"index      {stats.application}, {counted(len(stats.shards), 'shard')} here",
        f"documents  {stats.documents:,} ({stats.undecidable:,} matched by exact content only)",
        f"disk       {stats.bytes:,} bytes{each}",
        f"window     {stats.window or 'none: documents are kept for ever'}",
    ]
    if stats.standbys is not None:
        lines.append(f"standbys   {_standbys_text(stats.standbys)}")
    if stats.buckets is not None:
        lines.append(f"buckets    {stats.buckets:,}, {stats.mean_documents} documents in each")
        lines += [
            f"fullest    {each.documents:,} in {each.bucket}, value {each.value}"
            for each in stats.fullest
        ]
    for shard in stats.shards:
        times = "" if shard.oldest is None else f", times {shard.oldest} to {shard.newest}"
        size = f"{shard.documents:,} documents, {shard.bytes:,} bytes"
        lines.append(f"shard {shard.partition:<4} {size}{times}")
        lines.append(
            f"           next raw offset {shard.next_raw}, log from {shard.log_position}, "
            f"changelog read to {shard.changelog_offset}"
        )
    return lines


def _standbys_text(standbys: StandbyStats) -> str:
    if standbys.shards_without is None:
        return f"unknown: {standbys.why_unknown}"
    if not standbys.shards_without:
        return "open for each shard of the index"
    return f"none open for shards {' '.join(map(str, standbys.shards_without))}"


@index.command(short_help="Compare disk, changelog and log of an index.")
@options.with_broker
@options.shard_option
def verify(settings: options.Settings, *, shards: tuple[int, ...]) -> None:
    """Compare the stores on this machine with the changelog, and both with the log.

    The command reads every row and record and tests every checksum, so it finds even a single wrong
    bit. Each finding comes with its fix. The command changes nothing.

    Exit code 0 if all is consistent, 1 if not, 69 without a broker.

    \b
    Examples:
      firstseen index verify
      firstseen index verify --shard 3 --json | jq -r '.findings[].what'
    """
    from simhash_core.text.fingerprinter import Fingerprinter
    from streams.maintenance.verification import verify_index
    from streams.store.shard_directory import local_shards

    local = local_shards(settings, shards)
    admin = options.connect(settings)
    identity = Fingerprinter(settings.index_profile()).identity
    with progress_bar() as show:
        verified = verify_index(settings, admin, identity, local, show)
    options.write_answer("index-verify", verified, _verify_view(verified))
    if verified.findings:
        click.get_current_context().exit(1)


def _verify_view(verified: Verified) -> list[str]:
    lines = []
    for shard in verified.shards:
        records = counted(shard.records_behind, "record")
        behind = f", {records} behind its changelog" if shard.records_behind else ""
        lines.append(f"shard {shard.partition}: {shard.documents:,} documents compared{behind}")
    if verified.log_end is not None:
        lines.append(
            f"log: offsets {verified.log_start} to {verified.log_end}, "
            f"{counted(verified.undecided or 0, 'document')} undecided"
        )
    lines += [f"WRONG {finding}" for finding in verified.findings]
    if not verified.findings:
        lines.append("Disk, changelog and log are consistent.")
    return lines


@index.command(short_help="Write the entries of an index as JSON lines.")
@options.with_settings
@click.argument("file")
@options.shard_option
@options.json_option
def export(settings: options.Settings, file: str, *, shards: tuple[int, ...]) -> None:
    """Write the entries of the shards on this machine to FILE, as JSON lines.

    The first line names the index. FILE is written as gzip if it ends in .gz; - is
    standard output. 'firstseen index load' reads it.

    \b
    Examples:
      firstseen index export seen.jsonl.gz
      firstseen index export - --shard 0 | jq -r .id
    """
    from streams.files.output_files import new_output
    from streams.maintenance.exporting import export_entries
    from streams.store.shard_directory import local_shards

    if options.is_json() and file == "-":
        raise click.UsageError("--json and FILE - both write to standard output: name a file")
    local = local_shards(settings, shards)
    with progress_bar() as show, new_output(file) as output:
        count = export_entries(settings.application_id, local, output, show)
    content = {"file": file, "documents": count, "shards": [each.partition for each in local]}
    text = f"Wrote {count:,} entries to {file}."
    options.write_answer("index-export", content, text, stderr=file == "-")


@index.command(short_help="Load documents into an index.")
@options.with_broker
@click.argument("file", required=False)
@click.option("--topic", metavar="NAME", help="Load all documents of a topic, such as unique.")
@click.option(
    "--form",
    type=click.Choice(["auto", "texts", "fingerprints"]),
    default="auto",
    show_default=True,
    help="Format of the lines of FILE; auto decides by the first line.",
)
@options.number_option(
    "--jobs",
    click.IntRange(1, 256),
    "Number of processes that fingerprint the texts of FILE. [default: one per core]",
)
@click.option("--add", "adds", is_flag=True, help="Add to an index that already has documents.")
@click.option(
    "--begin",
    metavar="WHERE",
    help="Where workers start to read the raw topic: earliest, latest, or an application id, to "
    "continue from its committed offsets. Required if the raw topic has records.",
)
def load(
    settings: options.Settings,
    *,
    file: str | None,
    topic: str | None,
    form: Literal["auto", "texts", "fingerprints"],
    jobs: int | None,
    adds: bool,
    begin: str | None,
) -> None:
    """Load documents into an index as if they had been seen before.

    FILE (- is standard input, .gz is read as gzip) has one JSON object per line: a text with the
    fields that a worker reads; or a fingerprint ("id", "fingerprint" in hexadecimal, and "sketch"
    if the index has a second check). It can also be an export. --topic loads the documents of a
    topic: load the topic unique of another application to change settings of the index, or to use
    fewer partitions. The command does not compare the loaded documents with each other.

    The command loads everything in one transaction, or nothing. Stop all workers of the index
    before. For an index that already has documents, use --add.

    \b
    Examples:
      firstseen index load archive.jsonl.gz
      firstseen index load seen.export.jsonl.gz --set index.distance=48
      firstseen index load --topic unique --application-id second --begin firstseen
    """
    import msgspec

    from simhash_core.text.fingerprinter import Fingerprinter
    from simhash_core.text.profiles import index_digest
    from streams.maintenance.loading import FileSource, Loading, LoadSource, TopicSource

    if (file is None) == (topic is None):
        raise click.UsageError("give what to load: a FILE, or --topic NAME")
    admin = options.connect(settings)
    fingerprinter = Fingerprinter(settings.index_profile())
    loading = Loading(settings, admin, fingerprinter.identity, adds=adds, begin=begin)
    source: LoadSource
    if topic is not None:
        source = TopicSource(settings, fingerprinter, admin, topic)
    else:
        assert file is not None
        source = FileSource(settings, fingerprinter, file, form, jobs, options.announce)
    with progress_bar() as show:
        account = loading.run(source, show)
    content = {
        "application": settings.application_id,
        "index": index_digest(fingerprinter.identity),
        **msgspec.to_builtins(account),
    }
    options.write_answer("index-load", content, _load_view(account))


def _load_view(account: LoadAccount) -> list[str]:
    rate = account.documents / account.seconds if account.seconds else 0.0
    done = f"{account.documents:,} documents into {counted(len(account.shards), 'shard')}"
    lines = [f"Loaded {done} in {account.seconds:.1f} s ({rate:,.0f} per second)."]
    lines += [f"  {count:,} rejected: {reason}" for reason, count in account.refused.items()]
    if account.begins:
        lines.append("Workers begin to read the raw topic at")
        lines += [f"  partition {p}: offset {offset}" for p, offset in account.begins.items()]
    return lines


@index.command(short_help="Delete stores of shards, or a whole index.")
@options.with_broker
@options.shard_option
@click.option(
    "--everything",
    is_flag=True,
    help="Delete the whole index, including log, changelog and the group's offsets. After "
    "this, every document is new.",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def drop(
    settings: options.Settings, *, shards: tuple[int, ...], everything: bool, yes: bool
) -> None:
    """Delete the stores of the shards on this machine. Workers rebuild them from the changelog.

    With --everything the whole index is deleted. Workers that you start later build a new one and
    read the raw topic from its beginning. Raw topic and outputs stay as they are.

    \b
    Examples:
      firstseen index drop --shard 3
      firstseen index drop --everything --application-id trial
    """
    from streams.maintenance.dropping import drop_index, drop_stores
    from streams.store.shard_directory import local_shards

    if everything and shards:
        raise click.UsageError("--everything deletes the whole index: remove --shard")
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
        admin = options.connect(settings)
        with progress_bar() as show:
            dropped = drop_index(settings, admin, local, show)
    else:
        dropped = drop_stores(settings, local)
    options.write_answer("index-drop", dropped, _drop_view(dropped))


def _drop_view(dropped: Dropped) -> list[str]:
    shards = ", ".join(map(str, dropped.shards)) or "none here"
    lines = [f"Deleted the stores of the shards: {shards}."]
    if dropped.topics:
        lines.append(f"Deleted, and created again, empty: {', '.join(dropped.topics)}.")
    return lines


@index.command("new-log", short_help="Start a new log after the old one was lost or truncated.")
@options.with_broker
@click.option("--force", is_flag=True, help="Start a new log even if the existing one is complete.")
def new_log(settings: options.Settings, *, force: bool) -> None:
    """Start a new log from the state of the shards, after the old log was lost or truncated.

    Committed outputs stay. Documents in flight are sent and decided again. So a duplicate on the
    output topic may name a document whose own verdict was lost and is decided again. Stop all
    workers before. If the log topic was deleted, run 'firstseen topics create' first.

    \b
    Examples:
      firstseen topics create && firstseen index new-log
    """
    from simhash_core.text.fingerprinter import Fingerprinter
    from streams.maintenance.new_log import begin_new_log

    admin = options.connect(settings)
    identity = Fingerprinter(settings.index_profile()).identity
    with progress_bar() as show:
        begun = begin_new_log(settings, admin, identity, show, force=force)
    lines = [f"The new log starts at offset {begun.log_offset}."]
    if begun.filled:
        lines.append(f"{begun.filled:,} empty records are before it.")
    lines.append(f"{counted(begun.read_again, 'raw record')} will be read and sent again.")
    options.write_answer("index-new-log", begun, lines)


@index.command(short_help="Copy the stores of shards, to restore them later.")
@options.with_settings
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@options.shard_option
@options.json_option
def checkpoint(settings: options.Settings, directory: Path, *, shards: tuple[int, ...]) -> None:
    """Copy the stores of the shards on this machine to DIRECTORY.

    Each copy is the state of one commit, so its entries and its positions in log, raw topic and
    changelog are consistent. If workers are running, their stores are copied row by row.

    \b
    Examples:
      firstseen index checkpoint /backup/firstseen-monday
    """
    from streams.maintenance.checkpoints import make_checkpoint
    from streams.store.shard_directory import local_shards

    shards_here = local_shards(settings, shards)
    with progress_bar() as show:
        checkpoints = [make_checkpoint(each, directory, show) for each in shards_here]
    content = {"directory": str(directory), "checkpoints": checkpoints}
    text = _checkpoints_view(f"Copied to {directory}:", checkpoints)
    options.write_answer("index-checkpoint", content, text)


@index.command(short_help="Restore stores from copies.")
@options.with_settings
@click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--force", is_flag=True, help="Replace existing stores.")
@options.shard_option
@options.json_option
def restore(
    settings: options.Settings, directory: Path, *, force: bool, shards: tuple[int, ...]
) -> None:
    """Replace the stores on this machine with the copies in DIRECTORY.

    The command first verifies the digests of the files. Stop the worker before. When you start it
    again, it reads everything newer from the changelog, so nothing is lost.

    \b
    Examples:
      firstseen index restore /backup/firstseen-monday
      firstseen index restore /backup/firstseen-monday --shard 3 --force
    """
    from streams.maintenance.checkpoints import checkpoints_in, read_checkpoint, restore_checkpoint
    from streams.store.shard_directory import local_shard

    restored = [read_checkpoint(directory, each) for each in checkpoints_in(directory, shards)]
    with progress_bar() as show:
        for each in restored:
            shard = local_shard(settings, each.partition)
            restore_checkpoint(directory, each, shard, show, force=force)
    content = {"directory": str(directory), "checkpoints": restored}
    head = "Restored; workers read everything newer from the changelog:"
    text = _checkpoints_view(head, restored)
    options.write_answer("index-restore", content, text)


def _checkpoints_view(head: str, checkpoints: Sequence[Checkpoint]) -> list[str]:
    lines = (
        f"  shard {each.partition}: {each.documents:,} documents, up to log position "
        f"{each.log_position}, changelog {each.changelog_offset}"
        for each in checkpoints
    )
    return [head, *lines]
