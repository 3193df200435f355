"""``firstseen topics``: create and check the topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from streams.cli import options
from streams.terminal.layout import Block, Listing, counted, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streams.topics.checking import Checked, TopicState

_HEADINGS = ("topic", "partitions", "copies", "needed", "kept")


@click.group()
def topics() -> None:
    """Create and check the topics that Firstseen reads and writes."""


@topics.command(short_help="Create missing topics.")
@options.with_broker
@options.number_option(
    "--partitions",
    click.IntRange(1, 4096),
    "Partitions of new topics; required if the raw topic is new. Each raw partition is a "
    "shard, so this is the maximum number of workers. You can add partitions later.",
)
@options.number_option(
    "--replication-factor",
    click.IntRange(1, 32),
    "Copies of each partition. [default: 3, or the number of brokers if lower]",
    metavar="R",
)
def create(
    settings: options.Settings, *, partitions: int | None, replication_factor: int | None
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
    from streams.topics import admin as topics
    from streams.topics.checking import check as check_topics
    from streams.topics.plans import topic_plans

    admin = options.connect(settings)
    raw_partitions = topics.partitions_of(admin, [settings.topics.raw]).get(settings.topics.raw)
    plans = topic_plans(settings, partitions or raw_partitions, raw_partitions)
    result = topics.create(
        admin,
        plans,
        replication_factor=replication_factor,
        timeout_seconds=options.timeout_seconds(),
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
    _write(check_topics(admin, plans), {"topics": rows}, [table(map(_row, rows), "<<<")])


@topics.command(short_help="Check the topics and their configuration.")
@options.with_broker
def check(settings: options.Settings) -> None:
    """Check the topics and their configuration. Changes nothing.

    The output shows for each topic its partitions, their copies, min.insync.replicas and the
    retention. A difference prevents workers from starting. A note warns of possible loss: too few
    copies, an output topic with a shorter retention than output_retention_ms, a compacted output
    topic, or a raw topic that admits records over max_record_bytes. A note also names each
    partition where a transaction stays open for five seconds, because committed readers stop there,
    and a session_timeout_seconds that ends while the cluster still waits for a dead broker.

    Exit code 0 when all topics fit, 1 when one does not, 69 when no broker answers.

    \b
    Examples:
      firstseen topics check
      firstseen topics check --json | jq -r '.differences[].topic'
    """
    from streams.kafka.client_config import client_config
    from streams.topics import admin as topics
    from streams.topics.checking import check as check_topics
    from streams.topics.checking import session_notes
    from streams.topics.plans import topic_plans
    from streams.topics.watermarks import (
        HUNG_ADVICE,
        BrokerWatermarks,
        lasting_transactions,
        partitions_to_check,
    )

    admin = options.connect(settings)
    plans = topic_plans(settings)
    checked = check_topics(admin, plans)
    checked.notes.extend(session_notes(admin, settings))
    application_id = settings.application_id
    watermarks = BrokerWatermarks(
        client_config(settings), application_id, options.timeout_seconds()
    )
    is_open = lasting_transactions(
        watermarks, partitions_to_check(admin, [plan.name for plan in plans], application_id)
    )
    transactions = [
        {**each.partition._asdict(), "offset": each.offset, "end": each.end} for each in is_open
    ]
    view: list[Block] = [Listing(_HEADINGS, [*map(_state_row, checked.states)], "<>>>>")]
    if not checked.differences:
        shards = next(each for each in checked.states if each.topic == settings.topics.raw)
        view.append(f"All topics fit: {counted(shards.partitions, 'shard')}.")
    if not topics.can_administer(admin):
        click.echo(
            "Note: this broker does not return the settings of topics, so the command did not "
            "check them.",
            err=True,
        )
    notes = [f"{each}. {HUNG_ADVICE}" for each in is_open]
    states = [state._asdict() for state in checked.states]
    _write(checked, {"topics": states}, view, notes, open_transactions=transactions)


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


def _write(
    checked: Checked,
    topics: Mapping[str, object],
    view: Sequence[Block],
    notes: Sequence[str] = (),
    **others: object,
) -> None:
    """Write the result of a check; fail if topics differ from their plans.

    With ``--json`` the object has the differences, so only the exit code says that it failed.
    """
    from streams.topics.admin import TopicsError

    differences = [item._asdict() for item in checked.differences]
    found = {"fit": not differences, "differences": differences, "notes": checked.notes}
    options.write_answer("topics", {**topics, **found, **others}, view)
    if not options.is_json():
        for note in (*checked.notes, *notes):
            click.echo(f"Note: {note}.", err=True)
    if not differences:
        return
    if options.is_json():
        click.get_current_context().exit(1)
    raise TopicsError("\n  ".join(["topics do not fit:", *map(str, checked.differences)]))
