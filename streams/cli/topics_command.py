"""``firstseen topics``: create and check the topics."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from streams.cli.options import with_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streams.settings.settings import Settings
    from streams.topics.admin import Difference

_PARTITIONS = click.IntRange(1, 4096)


@click.group()
def command() -> None:
    """Create and check the topics that Firstseen reads and writes."""


def _topic_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add what both commands have."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Write one JSON object."),
        click.option(
            "--timeout",
            "timeout_seconds",
            type=click.FloatRange(0.1, 300),
            default=15.0,
            show_default=True,
            metavar="SECONDS",
            help="Longest wait for a broker, and then for its answer.",
        ),
    ):
        function = option(function)
    return function


@command.command(short_help="Make the topics that are not there.")
@with_settings
@_topic_options
@click.option(
    "--partitions",
    type=_PARTITIONS,
    metavar="N",
    help="Partitions of the topics that are made; needed where the raw topic is one of them. Its "
    "partitions are the shards: as many workers can share the work. They can be added to later.",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(1, 32),
    metavar="R",
    help="Copies of each partition; the broker's default unless given.",
)
def create(
    settings: Settings,
    *,
    partitions: int | None,
    replication_factor: int | None,
    timeout_seconds: float,
    as_json: bool,
) -> None:
    """Make the topics that are not there; run it as often as you like.

    Topics that are there are left as they are, but for a changelog that has fewer partitions than
    the raw topic, which gets the missing ones. Where the raw topic is there, what is made has as
    many partitions unless --partitions says otherwise. Exit code 0 when all topics fit, 1 when one
    does not, 69 when no broker answers.

    \b
    Examples:
      firstseen topics create --partitions 12
      firstseen topics create --partitions 12 --replication-factor 3 --broker kafka-1:9092
    """  # noqa: D301 - \b is click's mark for "leave the lines as they are"
    from streams.kafka.connection import connect_admin
    from streams.topics import admin as topics
    from streams.topics import shard_topics
    from streams.topics.plans import topic_plans

    admin = connect_admin(settings, timeout_seconds)
    raw_partitions = topics.partitions_of(admin, [settings.topics.raw]).get(settings.topics.raw)
    plans = topic_plans(settings, partitions or raw_partitions, raw_partitions)
    made = topics.create(
        admin,
        plans,
        replication_factor=replication_factor or topics.BROKER_CHOOSES,
        timeout_seconds=timeout_seconds,
    )
    grown = shard_topics.grow_changelog(admin, settings)
    there = topics.partitions_of(admin, [plan.name for plan in plans])
    rows = [
        {
            "topic": plan.name,
            "created": created,
            "added": grown if plan.shards_of else 0,
            "partitions": there.get(plan.name, 0),
            "config": dict(plan.config) if created else {},
        }
        for plan, created in made
    ]
    differences = topics.check(admin, plans)
    if as_json:
        click.echo(json.dumps({"topics": rows, **_as_content(differences, [])}, indent=2))
    else:
        width = max(len(plan.name) for plan in plans)
        for row in rows:
            state = "created" if row["created"] else "grown" if row["added"] else "exists"
            plural = "" if row["partitions"] == 1 else "s"
            click.echo(
                f"{state:<7}  {row['topic']:<{width}}  {row['partitions']} partition{plural}"
            )
    _end(differences, as_json=as_json)


@command.command(short_help="Compare the topics with what they must be.")
@with_settings
@_topic_options
def check(
    settings: Settings,
    *,
    timeout_seconds: float,
    as_json: bool,
) -> None:
    """Compare the topics with what they must be; nothing is changed.

    A raw topic with more partitions than the changelog is no difference but a note: workers add
    what is missing.

    Exit code 0 when all topics fit, 1 when one does not, 69 when no broker answers.

    \b
    Examples:
      firstseen topics check
      firstseen topics check --json | jq -r '.differences[].topic'
    """  # noqa: D301 - \b is click's mark for "leave the lines as they are"
    from streams.kafka.connection import connect_admin
    from streams.topics import admin as topics
    from streams.topics.plans import topic_plans

    admin = connect_admin(settings, timeout_seconds)
    plans = topic_plans(settings)
    differences, notes = topics.check(admin, plans), topics.notes(admin, plans)
    if as_json:
        click.echo(json.dumps(_as_content(differences, notes), indent=2))
    else:
        if not differences:
            raw = settings.topics.raw
            click.echo(f"All topics fit: {topics.partitions_of(admin, [raw])[raw]} shards.")
        _echo_notes(notes)
    if not topics.can_administer(admin):
        click.echo(
            "Note: this broker does not tell the settings of topics, so they were not checked.",
            err=True,
        )
    _end(differences, as_json=as_json)


def _as_content(differences: Sequence[Difference], notes: Sequence[str]) -> dict[str, object]:
    return {
        "fit": not differences,
        "differences": [item._asdict() for item in differences],
        "notes": list(notes),
    }


def _echo_notes(notes: Sequence[str]) -> None:
    for note in notes:
        click.echo(f"Note: {note}.", err=True)


def _end(differences: Sequence[Difference], *, as_json: bool) -> None:
    """Fail if there are differences; JSON has them already."""
    from streams.topics.admin import TopicsError

    if not differences:
        return
    if as_json:
        click.get_current_context().exit(1)
    raise TopicsError("\n  ".join(["topics do not fit:", *map(str, differences)]))
