"""``firstseen dlq``: list, show and replay dead letters."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import click

from simhash_core.verdicts import RejectionReason
from streams.cli import options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streams.dead_letters.letters import DeadLetterTopics
    from streams.dead_letters.replay import Account, Selection
    from streams.kafka.topic_follower import ReadRecord

_REASONS = click.Choice([reason.value for reason in RejectionReason])


@click.group()
def command() -> None:
    """List, show and replay dead letters: records that could not be read as documents."""


_reason_option = click.option(
    "--reason", "reasons", type=_REASONS, multiple=True, help="Only of this reason; repeatable."
)
_redeliveries_option = options.number_option(
    "--max-redeliveries redeliveries_max",
    click.IntRange(1, 1000),
    "Skip records that were already sent again N times.",
    default=3,
)


@command.command("list", short_help="Count dead letters, and show the newest.")
@options.with_settings
@options.json_option
@options.timeout_option
@_reason_option
@_redeliveries_option
@options.number_option(
    "--limit", click.IntRange(0, 100_000), "Show the newest N; 0 shows only the counts.", default=20
)
def list_(
    settings: options.Settings,
    *,
    reasons: tuple[str, ...],
    redeliveries_max: int,
    limit: int,
    timeout_seconds: float,
    as_json: bool,
) -> None:
    """Count dead letters by reason and partition, then show the newest.

    The whole topic is read; nothing is changed.

    \b
    Examples:
      firstseen dlq list
      firstseen dlq list --reason not_json --limit 100
      firstseen dlq list --json | jq -r '.newest[] | select(.state == "at cap") | .position'
    """  # noqa: D301 - \b is click's mark for "leave the lines as they are"
    from streams.cli.dlq_view import summary_object, summary_view
    from streams.dead_letters.letters import read_all, summarise
    from streams.dead_letters.replay import ReplayMemory

    topics = _topics(settings, timeout_seconds)
    with closing(ReplayMemory(settings, topics)) as memory:
        done = memory.read()
    summary = summarise(
        read_all(settings, topics, options.announce),
        raw_topic=topics.raw,
        done=done,
        redeliveries_max=redeliveries_max,
        reasons=frozenset(reasons),
        limit=limit,
    )
    content = summary_object(topics.dead_letters, summary)
    blocks = summary_view(topics.dead_letters, summary)
    options.write_blocks("dead-letters", content, blocks, as_json=as_json)


@command.command(short_help="Show one dead letter whole.")
@options.with_settings
@options.json_option
@options.timeout_option
@options.number_option(
    "--bytes bytes_max",
    click.IntRange(0, 64 * 1024 * 1024),
    "Show N bytes of the value, the key and each header; --json shows all.",
    default=4096,
)
@click.argument("position")
def show(
    settings: options.Settings,
    *,
    position: str,
    bytes_max: int,
    timeout_seconds: float,
    as_json: bool,
) -> None:
    """Show the dead letter at POSITION, such as dlq.raw-documents/0@7, or 0@7 for short.

    Text is shown as text, with escapes for what does not print; other bytes as hexadecimal digits.

    \b
    Examples:
      firstseen dlq show 0@7
      firstseen dlq show dlq.raw-documents/0@7 --json | jq -r .value
    """  # noqa: D301 - \b is click's mark for "leave the lines as they are"
    from simhash_core.errors import UsageError
    from streams.cli.dlq_view import letter_object, letter_view
    from streams.dead_letters.letters import dead_letter_of, position_on, read_positions

    topics = _topics(settings, timeout_seconds)
    (record,) = read_positions(settings, [position_on(topics, position)])
    letter = dead_letter_of(record)
    if letter is None:
        raise UsageError(f"the record at {record.position} is no dead letter: 'firstseen consume'")
    blocks = letter_view(letter, bytes_max)
    options.write_blocks("dead-letter", letter_object(letter), blocks, as_json=as_json)


@command.command(short_help="Send dead letters back to the raw topic.")
@options.with_settings
@options.json_option
@options.timeout_option
@click.option("--all", "everything", is_flag=True, help="All that can be sent.")
@_reason_option
@_redeliveries_option
@options.number_option("--limit", click.IntRange(min=1), "Send N at most.")
@click.option("--again", is_flag=True, help="Include those that were replayed before.")
@click.option("--dry-run", is_flag=True, help="Show what would be sent, without sending.")
@click.argument("positions", nargs=-1)
def replay(  # noqa: PLR0913 - one for each option
    settings: options.Settings,
    *,
    positions: tuple[str, ...],
    everything: bool,
    reasons: tuple[str, ...],
    redeliveries_max: int,
    limit: int | None,
    again: bool,
    dry_run: bool,
    timeout_seconds: float,
    as_json: bool,
) -> None:
    """Send dead letters back to the raw topic: all, those of a reason, or those at POSITIONS.

    Each goes with its own key, value, headers and timestamp to the partition that it came from; the
    header firstseen-redeliveries counts. A record that fails again becomes a new dead letter; after
    --max-redeliveries times it is skipped. The command remembers what it replayed, so you can
    interrupt and repeat it. It cannot send records that were too large, because their dead letters
    have no body.

    Exit code 0 when all that can be sent has been, 1 when one at POSITIONS was not.

    \b
    Examples:
      firstseen dlq replay --all --dry-run
      firstseen dlq replay --reason missing_text --reason wrong_type
      firstseen dlq replay 0@7 0@9
    """  # noqa: D301 - \b is click's mark for "leave the lines as they are"
    from streams.dead_letters.letters import position_on, read_all, read_positions
    from streams.dead_letters.replay import Account, Selection

    if sum((everything, bool(reasons), bool(positions))) != 1:
        raise click.UsageError("say which: --all, --reason REASON, or positions")
    topics = _topics(settings, timeout_seconds, sends=not dry_run)
    at = [position_on(topics, position) for position in positions]
    records = read_positions(settings, at) if at else read_all(settings, topics, options.announce)
    account = Account()
    is_complete = False
    try:
        selection = Selection(frozenset(reasons), limit, redeliveries_max, again)
        _replay(settings, topics, selection, account, records, whole=not at, sends=not dry_run)
        is_complete = True
    finally:  # after an error or Ctrl-C too, report what was sent
        _show(account, topics, as_json=as_json, dry_run=dry_run, is_complete=is_complete)
    if at and account.sent < len(set(at)):
        click.get_current_context().exit(1)


def _topics(
    settings: options.Settings, timeout_seconds: float, *, sends: bool = False
) -> DeadLetterTopics:
    """Connect and look up the topics; ``sends`` requires what the delivery mode needs."""
    from streams.dead_letters.letters import dead_letter_topics
    from streams.kafka.connection import connect_admin
    from streams.settings.settings import Delivery
    from streams.topics.admin import TopicsError, can_administer

    admin = connect_admin(settings, timeout_seconds, options.announce)
    if sends and settings.delivery is Delivery.EXACTLY_ONCE and not can_administer(admin):
        raise TopicsError(
            "delivery is exactly_once, but this broker has no transactions (librdkafka's "
            "in-process broker has none): set delivery=at_least_once, as for its workers"
        )
    return dead_letter_topics(admin, settings)


def _replay(
    settings: options.Settings,
    topics: DeadLetterTopics,
    selection: Selection,
    account: Account,
    records: Iterable[ReadRecord],
    *,
    whole: bool,
    sends: bool,
) -> None:
    from streams.dead_letters.replay import Replay, ReplayMemory, redeliveries_of

    if sends:
        redeliveries = redeliveries_of(settings, topics)
        with closing(redeliveries):
            done = redeliveries.begin()
            Replay(topics, selection, done, redeliveries, account).run(records, whole=whole)
    else:
        with closing(ReplayMemory(settings, topics)) as memory:
            done = memory.read()
        Replay(topics, selection, done, None, account).run(records, whole=whole)


def _show(
    account: Account, topics: DeadLetterTopics, *, as_json: bool, dry_run: bool, is_complete: bool
) -> None:
    from streams.cli.dlq_view import account_object, account_view

    content = account_object(account, topics.raw, dry_run=dry_run, is_complete=is_complete)
    blocks = account_view(account, topics.raw, dry_run=dry_run, is_complete=is_complete)
    options.write_blocks("replay", content, blocks, as_json=as_json)
