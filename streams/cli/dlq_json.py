"""Dead letters for programs: what ``firstseen dlq`` writes with ``--json``."""

from __future__ import annotations

from streams.cli.dlq_view import state_name, time_text
from streams.dead_letters.letters import DeadLetter, ReplayOutcome
from streams.dead_letters.replay import Account
from streams.dead_letters.summary import Listed, Summary
from streams.output.record_views import bytes_view, record_view


def summary_object(topic: str, summary: Summary) -> dict[str, object]:
    """Return counts and the newest records."""
    return {
        "topic": topic,
        **summary.total._asdict(),
        "no_dead_letter": summary.no_dead_letter,
        "reasons": {name: count._asdict() for name, count in sorted(summary.by_reason.items())},
        "partitions": {
            str(partition): count._asdict()
            for partition, count in sorted(summary.by_partition.items())
        },
        "newest": [_listed(each) for each in summary.newest],
    }


def letter_object(letter: DeadLetter) -> dict[str, object]:
    """Return a dead letter whole."""
    record = letter.record
    return {
        "position": str(record.position),
        "source": str(letter.source),
        "reason": letter.reason,
        "detail": letter.detail,
        "redeliveries": letter.redeliveries,
        **record_view(record.key, record.value, record.timestamp_ms, record.headers),
    }


def account_object(
    account: Account, raw_topic: str, *, dry_run: bool, is_complete: bool
) -> dict[str, object]:
    """Return what became of each record; the outcomes add up to those that were selected."""
    return {
        "topic": raw_topic,
        "dry_run": dry_run,
        "complete": is_complete,
        **{outcome.value: account.outcomes[outcome] for outcome in ReplayOutcome},
        "in_doubt": account.under_way,
        "not_selected": account.not_selected,
        "no_dead_letter": account.no_dead_letter,
        "left": [
            {"position": str(letter.record.position), "state": state_name(why)}
            for letter, why in account.left
        ],
    }


def _listed(listed: Listed) -> dict[str, object]:
    letter, state = listed
    return {
        "position": str(letter.record.position),
        "timestamp": time_text(letter.record.timestamp_ms),
        "reason": letter.reason,
        "redeliveries": letter.redeliveries,
        "state": state_name(state),
        "source": str(letter.source),
        "key": bytes_view(letter.record.key),
        "detail": letter.detail,
    }
