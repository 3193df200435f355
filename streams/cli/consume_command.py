"""``firstseen consume``: show records of topics, as text or as JSON lines."""

from __future__ import annotations

import math
import sys
import time
from typing import TYPE_CHECKING, Final

import click

from streams.cli import options

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.kafka.topic_follower import ReadRecord

_NAMES: Final = {
    "unique": "unique",
    "duplicate-of": "duplicates",
    "tagged": "tagged",
    "dead-letters": "dead_letters",
    "raw": "raw",
}
_PIPED_CELLS: Final = 160
_FIRST_RECORD_SECONDS: Final = 60.0


def topic_names(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in _NAMES if name.startswith(incomplete)]


@click.command()
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="NAME",
    shell_complete=topic_names,
    help="unique, duplicate-of, tagged, dead-letters or raw (the topics of the settings), or any "
    "topic name; repeatable. [default: the output topics]",
)
@click.option(
    "--from-beginning", is_flag=True, help="Start with the oldest record instead of new ones."
)
@click.option(
    "--follow/--until-end",
    default=True,
    show_default=True,
    help="Keep reading, or read from the beginning to the current end of the topics and stop.",
)
@options.number_option(
    "--max-messages --limit limit", click.IntRange(min=1), "Stop after N records."
)
@options.number_option(
    "--idle-exit idle_seconds",
    click.FloatRange(0.1, 86_400),
    "Stop after this time without a record; the first record may take a minute.",
    metavar="SECONDS",
)
@options.with_broker
def consume(
    settings: options.Settings,
    *,
    topics: tuple[str, ...],
    from_beginning: bool,
    follow: bool,
    limit: int | None,
    idle_seconds: float | None,
) -> None:
    """Show records of topics as they arrive. Commits no offsets and affects no other consumer.

    Each line shows a verdict: unique with the beginning of the text, undecidable (too short to
    compare), duplicate with its original and the distance, or dead letter with the reason.

    With --json each line has topic, partition, offset, timestamp_ms, key, value and headers; bytes
    that are not UTF-8 appear as {"base64": "…"}.

    \b
    Examples:
      firstseen consume
      firstseen consume --topic duplicate-of --until-end
      firstseen consume --topic raw --from-beginning --max-messages 10
      firstseen consume --from-beginning --idle-exit 5
      firstseen consume --until-end --topic duplicate-of --json | jq '.value | fromjson | .distance'
    """
    from streams.kafka.topic_follower import TopicFollower
    from streams.topics.admin import TopicsError, partitions_of

    names = [
        str(getattr(settings.topics, _NAMES[name])) if name in _NAMES else name for name in topics
    ] or list(settings.output_topics)
    admin = options.connect(settings)
    partitions = partitions_of(admin, names)
    missing = [name for name in names if name not in partitions]
    if missing:
        are = "topic {} is" if len(missing) == 1 else "topics {} are"
        listed = are.format(", ".join(missing))
        raise TopicsError(f"{listed} missing: run 'firstseen topics create'")
    write = _json_writer() if options.is_json() else _line_writer(settings)
    left = sys.maxsize if limit is None else limit
    with TopicFollower(
        settings, partitions, from_beginning=from_beginning or not follow, announce=options.announce
    ) as follower:
        idle_until, seen = math.inf, 0
        if idle_seconds is not None:
            idle_until = time.monotonic() + max(idle_seconds, _FIRST_RECORD_SECONDS)
        for records in follower.batches(None if follow else follower.ends()):
            for record in records[:left]:
                write(record)
            sys.stdout.flush()
            left -= len(records[:left])
            if records and idle_seconds is not None:
                idle_until = time.monotonic() + idle_seconds
            seen += len(records)
            is_idle = time.monotonic() >= idle_until
            if is_idle and not seen:
                options.announce(f"no record in {_FIRST_RECORD_SECONDS:g} s: is a worker running?")
            if is_idle or not left:
                return


def _line_writer(settings: options.Settings) -> Callable[[ReadRecord], None]:
    from rich.console import Console

    from streams.terminal.record_lines import RecordLines

    console = Console(highlight=False, soft_wrap=True)
    width = console.width if console.is_terminal else _PIPED_CELLS
    lines = RecordLines(settings, width)
    return lambda record: console.print(lines.line(record))


def _json_writer() -> Callable[[ReadRecord], None]:
    import msgspec

    from streams.documents.output_records import record_view

    def write(record: ReadRecord) -> None:
        view = record_view(record.key, record.value, record.timestamp_ms, record.headers)
        line = options.json_line("record", msgspec.structs.asdict(record.position) | view)
        sys.stdout.write(line + "\n")

    return write
