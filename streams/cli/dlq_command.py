"""``firstseen dlq``: list, show and replay dead letters."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Final, TypeAlias

import click

from simhash_core.errors import UsageError
from simhash_core.verdicts import RejectionReason
from streams.cli import options
from streams.terminal.layout import Block, Listing, counted, escaped, one_line, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streams.dead_letters.letters import (
        DeadLetter,
        DeadLetterTopics,
        Listed,
        ReplayOutcome,
        Summary,
    )
    from streams.dead_letters.replay import Account

_REASONS = click.Choice([reason.value for reason in RejectionReason])
_KEY_CELLS: Final = 28
_DETAIL_CELLS: Final = 72
_HEX_BYTES: Final = 16
_PRINTED: Final = range(0x20, 0x7F)
_NOT_SENT: Final = {
    "replayed_before": ("replayed", "replayed before"),
    "at_cap": ("at cap", "at the limit of redeliveries (--max-redeliveries)"),
    "without_body": (
        "cut",
        "truncated, because the record was too large: its source must send it again",
    ),
    "of_another_topic": ("other topic", "from a raw topic other than topics.raw"),
}
"""How each outcome of a replay except ``sent`` is named in a table and in an account."""


@click.group()
def dlq() -> None:
    """List, show and replay dead letters: records that could not be read as documents."""


_reason_option = click.option(
    "--reason",
    "reasons",
    type=_REASONS,
    multiple=True,
    help="Only dead letters with this reason; repeatable.",
)
_redeliveries_option = options.number_option(
    "--max-redeliveries redeliveries_max",
    click.IntRange(1, 1000),
    "Skip records that were already replayed N times.",
    default=3,
)


@dlq.command("list", short_help="Count dead letters, and show the newest.")
@options.with_broker
@_reason_option
@_redeliveries_option
@options.number_option(
    "--limit", click.IntRange(0, 100_000), "Show the newest N; 0 shows only the counts.", default=20
)
def list_(
    settings: options.Settings, *, reasons: tuple[str, ...], redeliveries_max: int, limit: int
) -> None:
    """Count dead letters by reason and partition, then show the newest.

    The whole topic is read; nothing is changed.

    \b
    Examples:
      firstseen dlq list
      firstseen dlq list --reason not_json --limit 100
      firstseen dlq list --json | jq -r '.newest[] | select(.state == "at cap") | .position'
    """
    from streams.dead_letters.letters import read_all, summarise
    from streams.dead_letters.replay import Redeliveries

    topics = _topics(settings)
    with closing(Redeliveries(settings, topics)) as redeliveries:
        done = redeliveries.begin()
    summary = summarise(
        read_all(settings, topics, options.announce),
        raw_topic=topics.raw,
        done=done,
        redeliveries_max=redeliveries_max,
        reasons=frozenset(reasons),
        limit=limit,
    )
    content, view = _summary_shown(topics.dead_letters, summary)
    options.write_answer("dead-letters", content, view)


@dlq.command(short_help="Show one complete dead letter.")
@options.with_broker
@options.number_option(
    "--bytes bytes_max",
    click.IntRange(0, 64 * 1024 * 1024),
    "Show N bytes of the value, the key and each header; --json shows all.",
    default=4096,
)
@click.argument("position")
def show(settings: options.Settings, *, position: str, bytes_max: int) -> None:
    """Show the dead letter at POSITION, such as dlq.raw-documents/0@7, or 0@7 for short.

    Text is shown as text, with escapes for unprintable characters; other bytes are shown as
    hexadecimal digits.

    \b
    Examples:
      firstseen dlq show 0@7
      firstseen dlq show dlq.raw-documents/0@7 --json | jq -r .value
    """
    from streams.dead_letters.letters import dead_letter_of, position_on, read_positions

    topics = _topics(settings)
    (record,) = read_positions(settings, [position_on(topics, position)])
    letter = dead_letter_of(record)
    if letter is None:
        raise UsageError(
            f"the record at {record.position} is not a dead letter: 'firstseen consume'"
        )
    content, view = _letter_shown(letter, bytes_max)
    options.write_answer("dead-letter", content, view)


@dlq.command(short_help="Send dead letters back to the raw topic.")
@options.with_broker
@click.option(
    "--all", "everything", is_flag=True, help="Replay all dead letters that can be replayed."
)
@_reason_option
@_redeliveries_option
@options.number_option("--limit", click.IntRange(min=1), "Replay at most N dead letters.")
@click.option("--again", is_flag=True, help="Include dead letters that were replayed before.")
@click.option("--dry-run", is_flag=True, help="Show what would be sent, without sending.")
@click.argument("positions", nargs=-1)
def replay(
    settings: options.Settings,
    *,
    positions: tuple[str, ...],
    everything: bool,
    reasons: tuple[str, ...],
    redeliveries_max: int,
    limit: int | None,
    again: bool,
    dry_run: bool,
) -> None:
    """Send dead letters back to the raw topic: all, those with a reason, or those at POSITIONS.

    Each is sent with its key, value, headers and timestamp to the partition that it came from; the
    header firstseen-redeliveries counts the replays. A record that fails again becomes a new dead
    letter; after --max-redeliveries times it is skipped. The command stores which ones it replayed,
    so you can interrupt and repeat it. It cannot send records that were too large, because their
    dead letters have no body.

    Exit code 0 if all that can be replayed were, 1 if one at POSITIONS was not.

    \b
    Examples:
      firstseen dlq replay --all --dry-run
      firstseen dlq replay --reason missing_text --reason wrong_type
      firstseen dlq replay 0@7 0@9
    """
    from streams.dead_letters.letters import position_on, read_all, read_positions
    from streams.dead_letters.replay import (
        Account,
        Redeliveries,
        Replay,
        Selection,
        redeliveries_of,
    )

    if sum((everything, bool(reasons), bool(positions))) != 1:
        raise click.UsageError("choose the dead letters: --all, --reason REASON, or positions")
    topics = _topics(settings, sends=not dry_run)
    at = [position_on(topics, position) for position in positions]
    records = read_positions(settings, at) if at else read_all(settings, topics, options.announce)
    selection = Selection(frozenset(reasons), limit, redeliveries_max, again)
    account = Account()
    is_complete = False
    try:
        opened = (Redeliveries if dry_run else redeliveries_of)(settings, topics)
        with closing(opened) as redeliveries:
            Replay(topics, selection, redeliveries, account).run(records, whole=not at)
        is_complete = True
    finally:  # after an error or Ctrl-C too, report what was sent
        content, view = _account_shown(
            account, topics.raw, dry_run=dry_run, is_complete=is_complete
        )
        options.write_answer("replay", content, view)
    if at and account.sent < len(set(at)):
        click.get_current_context().exit(1)


def _topics(settings: options.Settings, *, sends: bool = False) -> DeadLetterTopics:
    """Connect and look up the topics; ``sends`` requires what the delivery mode needs."""
    from streams.dead_letters.letters import dead_letter_topics
    from streams.settings.settings import Delivery
    from streams.topics.admin import TopicsError, can_administer

    admin = options.connect(settings)
    if sends and settings.delivery is Delivery.EXACTLY_ONCE and not can_administer(admin):
        raise TopicsError(
            "delivery is exactly_once, but this broker has no transactions (librdkafka's "
            "in-process broker has none): set delivery=at_least_once, as for its workers"
        )
    return dead_letter_topics(admin, settings)


# ---- The output of the commands: an object for JSON, and a view.

_Shown: TypeAlias = tuple[dict[str, object], list[Block]]


def _summary_shown(topic: str, summary: Summary) -> _Shown:
    total, newest = summary.total, summary.newest
    reasons, partitions = sorted(summary.by_reason.items()), sorted(summary.by_partition.items())
    content = {
        "topic": topic,
        **asdict(total),
        "no_dead_letter": summary.no_dead_letter,
        "reasons": dict(reasons),
        "partitions": dict(partitions),
        "newest": [_listed(each) for each in newest],
    }
    counted_letters = counted(total.records, "dead letter")
    view: list[Block] = [f"{topic}: {counted_letters}, {total.to_replay:,} to replay"]
    if summary.no_dead_letter:
        view.append(f"  and {counted(summary.no_dead_letter, 'record')} in another format")
    if total.records:
        counts = [*reasons, *((f"partition {number}", count) for number, count in partitions)]
        rows = [(name, f"{each.records:,}", f"{each.to_replay:,}") for name, each in counts]
        view += ["", table([("", "dead letters", "to replay"), *rows], "<>>", "  ")]
    if newest:
        head = ("position", "time", "reason", "sent again", "state", "source", "key", "what")
        view += ["", Listing(head, [*map(_row, newest)], "<<<><<<", "  ")]
        if len(newest) < total.records:
            view.append(f"  the newest {len(newest):,} of {total.records:,}: --limit shows more")
    return content, view


def _listed(listed: Listed) -> dict[str, object]:
    from streams.documents.output_records import bytes_view

    letter, state = listed
    return {
        "position": str(letter.record.position),
        "timestamp": _time_text(letter.record.timestamp_ms),
        "reason": letter.reason,
        "redeliveries": letter.redeliveries,
        "state": _state_name(state),
        "source": str(letter.source),
        "key": bytes_view(letter.record.key),
        "detail": letter.detail,
    }


def _row(listed: Listed) -> tuple[str, ...]:
    letter = listed.letter
    position = letter.record.position
    shown = _listed(listed)
    return (
        f"{position.partition}@{position.offset}",
        *(str(shown[name]) for name in ("timestamp", "reason", "redeliveries", "state", "source")),
        one_line((letter.record.key or b"").decode(errors="replace"), _KEY_CELLS),
        one_line(letter.detail, _DETAIL_CELLS),
    )


def _state_name(state: ReplayOutcome | None) -> str:
    return "to replay" if state is None else _NOT_SENT[state][0]


def _time_text(time_ms: int) -> str:
    """Return the time of a record; an invalid time may be the reason of the dead letter."""
    from streams.documents.timestamps import format_rfc3339

    try:
        return format_rfc3339(time_ms)
    except UsageError:
        return f"{time_ms} ms"


def _letter_shown(letter: DeadLetter, bytes_max: int) -> _Shown:
    """Show a dead letter; in the view, key, headers and value are cut to ``bytes_max`` bytes."""
    from streams.documents.output_records import record_view

    record = letter.record
    content = {
        "position": str(record.position),
        "source": str(letter.source),
        "reason": letter.reason,
        "detail": letter.detail,
        "redeliveries": letter.redeliveries,
        **record_view(record.key, record.value, record.timestamp_ms, record.headers),
    }
    view: list[Block] = [
        f"position      {record.position}",
        f"time          {_time_text(record.timestamp_ms)}",
        f"source        {one_line(str(letter.source))}",
        f"reason        {one_line(letter.reason)}",
        f"what          {one_line(letter.detail)}",
        f"redeliveries  {letter.redeliveries}",
        "headers",
    ]
    named = [(f"  {escaped(name)}", value) for name, value in record.headers]
    for name, value in (*named, ("key", record.key), ("value", record.value)):
        view += _block(name, value, bytes_max)
    return content, view


def _block(name: str, content: bytes | None, bytes_max: int) -> Iterator[str]:
    if content is None:
        yield f"{name}: null"
        return
    shown, more = content[:bytes_max], len(content) - bytes_max
    try:
        content.decode()
    except UnicodeDecodeError:
        yield f"{name}: {len(content):,} bytes, not UTF-8"
        yield from _hex_lines(shown)
    else:
        # The cut may split a character: ignore its first bytes.
        text = escaped(shown.decode(errors="ignore"))
        if len(content) <= _HEX_BYTES * 5 and "\n" not in text:
            yield f"{name}: {text}"
            return
        yield f"{name}: {len(content):,} bytes"
        yield from (f"    {line}" for line in text.split("\n"))
    if more > 0:
        yield f"    … {more:,} more bytes (--bytes N shows them)"


def _hex_lines(content: bytes) -> Iterator[str]:
    for start in range(0, len(content), _HEX_BYTES):
        row = content[start : start + _HEX_BYTES]
        signs = "".join(chr(each) if each in _PRINTED else "." for each in row)
        yield f"    {start:08x}  {row.hex(' '):<{3 * _HEX_BYTES - 1}}  {signs}"


def _account_shown(account: Account, raw_topic: str, *, dry_run: bool, is_complete: bool) -> _Shown:
    """Show the outcomes; they add up to the number of selected records."""
    from streams.dead_letters.letters import ReplayOutcome

    outcomes = account.outcomes
    left = [(letter, _state_name(why)) for letter, why in account.left]
    content = {
        "topic": raw_topic,
        "dry_run": dry_run,
        "complete": is_complete,
        **{outcome.value: outcomes[outcome] for outcome in ReplayOutcome},
        "in_doubt": account.under_way,
        "not_selected": account.not_selected,
        "no_dead_letter": account.no_dead_letter,
        "left": [{"position": str(each.record.position), "state": why} for each, why in left],
    }
    counts = [
        (
            account.under_way,
            "unknown: interrupted while they were sent. The next run skips those that were sent",
        ),
        *((outcomes[ReplayOutcome(name)], text) for name, (_, text) in _NOT_SENT.items()),
        (account.not_selected, "with other reasons"),
        (account.no_dead_letter, "not dead letters: records in another format"),
    ]
    unfinished = "the replay stopped before its end; repeat the command to continue. So far:"
    view: list[Block] = [] if is_complete else [unfinished]
    sent = "would be sent again" if dry_run else "sent again"
    view.append(f"{account.sent:,} {sent} to {raw_topic}")
    view += [f"{count:,} {text}" for count, text in counts if count]
    for each, why in left:
        view.append(f"  {each.record.position} (of {one_line(str(each.source))}): {why}")
    return content, view
