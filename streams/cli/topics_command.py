"""``firstseen topics``: create and check the topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from streams.cli import options
from streams.terminal.layout import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streams.kafka.clients import AdminClient
    from streams.topics.checking import Checked, TopicState
    from streams.topics.watermarks import OpenTransaction

_PARTITIONS = click.IntRange(1, 4096)
_HEADINGS = ("topic", "partitions", "copies", "needed", "kept")


@click.group()
def topics() -> None:
    """Create and check the topics that Firstseen reads and writes."""


@topics.command(short_help="Create missing topics.")
@options.with_settings
@options.json_option
@options.timeout_option
@click.option(
    "--partitions",
    type=_PARTITIONS,
    metavar="N",
    help="Partitions of new topics; required if the raw topic is new. Each raw partition is a "
    "shard, so this is the maximum number of workers. You can add partitions later.",
)
@options.number_option(
    "--replication-factor",
    click.IntRange(1, 32),
    "Copies of each partition. [default: 3, or the number of brokers if lower]",
    metavar="R",
)
def create(
    settings: options.Settings,
    *,
    partitions: int | None,
    replication_factor: int | None,
    timeout_seconds: float,
    as_json: bool,
) -> None:
    """Create missing topics. You can run it repeatedly.

    Existing topics are not changed, except that a changelog with fewer partitions than the raw
    topic gets the missing ones. New topics get as many partitions as an existing raw topic, unless
    you set --partitions. Exit code 0 if all topics fit, 1 if one does not, 69 if no broker answers.

    \b
    Examples:
      firstseen topics create --partitions 12
      firstseen topics create --partitions 12 --replication-factor 3 --broker kafka-1:9092
    """
    from streams.kafka.connection import connect_admin
    from streams.terminal.layout import show, table
    from streams.topics import admin as topics
    from streams.topics.checking import check as check_topics
    from streams.topics.plans import topic_plans

    admin = connect_admin(settings, timeout_seconds)
    raw_partitions = topics.partitions_of(admin, [settings.topics.raw]).get(settings.topics.raw)
    plans = topic_plans(settings, partitions or raw_partitions, raw_partitions)
    result = topics.create(
        admin, plans, replication_factor=replication_factor, timeout_seconds=timeout_seconds
    )
    grown = topics.grow_changelog(admin, settings)
    there = topics.partitions_of(admin, [plan.name for plan in plans])
    rows = [
        {
            "topic": plan.name,
            "created": created,
            "added": grown if plan.shards_of else 0,
            "partitions": there.get(plan.name, 0),
            "config": dict(config),
        }
        for plan, created, config in result
    ]
    checked = check_topics(admin, plans)
    if as_json:
        options.write_json("topics", {"topics": rows, **_as_content(checked)})
    else:
        show([table(map(_row, rows), "<<<")])
        _echo_notes(checked.notes)
    _end(checked, as_json=as_json)


@topics.command(short_help="Check the topics and their configuration.")
@options.with_settings
@options.json_option
@options.timeout_option
def check(settings: options.Settings, *, timeout_seconds: float, as_json: bool) -> None:
    """Check the topics and their configuration. Changes nothing.

    The output shows for each topic its partitions, their copies, min.insync.replicas and the
    retention. A difference prevents workers from starting. A note warns of possible loss: too few
    copies, an output topic with a shorter retention than output_retention_ms, or a raw topic that
    admits records over max_record_bytes. A note also names each partition where a transaction stays
    open for five seconds: committed readers stop there.

    Exit code 0 when all topics fit, 1 when one does not, 69 when no broker answers.

    \b
    Examples:
      firstseen topics check
      firstseen topics check --json | jq -r '.differences[].topic'
    """
    from streams.kafka.connection import connect_admin
    from streams.terminal.layout import Listing, show
    from streams.topics import admin as topics
    from streams.topics.checking import check as check_topics
    from streams.topics.plans import topic_plans
    from streams.topics.watermarks import HUNG_ADVICE

    admin = connect_admin(settings, timeout_seconds)
    plans = topic_plans(settings)
    checked = check_topics(admin, plans)
    is_open = _open_transactions(settings, admin, [plan.name for plan in plans], timeout_seconds)
    if as_json:
        states = [state._asdict() for state in checked.states]
        transactions = [
            {**each.partition._asdict(), "offset": each.offset, "end": each.end} for each in is_open
        ]
        content = _as_content(checked)
        options.write_json(
            "topics", {"topics": states, **content, "open_transactions": transactions}
        )
    else:
        show([Listing(_HEADINGS, [*map(_state_row, checked.states)], "<>>>>")])
        if not checked.differences:
            shards = next(each for each in checked.states if each.topic == settings.topics.raw)
            click.echo(f"All topics fit: {counted(shards.partitions, 'shard')}.")
        _echo_notes(checked.notes)
        _echo_notes([f"{each}. {HUNG_ADVICE}" for each in is_open])
    if not topics.can_administer(admin):
        click.echo(
            "Note: this broker does not return the settings of topics, so they were not checked.",
            err=True,
        )
    _end(checked, as_json=as_json)


def _open_transactions(
    settings: options.Settings, admin: AdminClient, topics: Sequence[str], timeout_seconds: float
) -> list[OpenTransaction]:
    """Return the transactions that stay open, in partitions for which a broker answers."""
    from streams.kafka.client_config import admin_config
    from streams.topics.watermarks import (
        BrokerWatermarks,
        lasting_transactions,
        partitions_to_check,
    )

    group_id = settings.application_id
    broker = BrokerWatermarks(admin_config(settings), group_id, timeout_seconds)
    return lasting_transactions(broker, partitions_to_check(admin, topics, group_id))


def _state_row(state: TopicState) -> tuple[str, ...]:
    from streams.topics.checking import retention_text

    return (
        state.topic,
        str(state.partitions),
        str(state.replicas),
        "" if state.min_in_sync is None else str(state.min_in_sync),
        "" if state.retention_ms is None else retention_text(state.retention_ms),
    )


def _row(row: Mapping[str, Any]) -> tuple[str, str, str]:
    state = "created" if row["created"] else "grown" if row["added"] else "exists"
    return state, row["topic"], counted(row["partitions"], "partition")


def _as_content(checked: Checked) -> dict[str, object]:
    return {
        "fit": not checked.differences,
        "differences": [item._asdict() for item in checked.differences],
        "notes": checked.notes,
    }


def _echo_notes(notes: Sequence[str]) -> None:
    for note in notes:
        click.echo(f"Note: {note}.", err=True)


def _end(checked: Checked, *, as_json: bool) -> None:
    """Fail if there are differences; the JSON output has them already."""
    from streams.topics.admin import TopicsError

    if not checked.differences:
        return
    if as_json:
        click.get_current_context().exit(1)
    raise TopicsError("\n  ".join(["topics do not fit:", *map(str, checked.differences)]))
