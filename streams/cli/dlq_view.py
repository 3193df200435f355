"""Dead letters as text and as JSON objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from simhash_core.errors import UsageError
from streams.dead_letters.letters import DeadLetter, Listed, ReplayOutcome, Summary
from streams.dead_letters.replay import Account
from streams.documents.output_records import bytes_view, record_view
from streams.documents.timestamps import format_rfc3339
from streams.terminal.layout import Block, Listing, counted, escaped, one_line, table

_KEY_CELLS: Final = 28
_DETAIL_CELLS: Final = 72
_HEX_BYTES: Final = 16
_PRINTED: Final = range(0x20, 0x7F)

SAID: Final = {
    ReplayOutcome.SENT: "sent again",
    ReplayOutcome.REPLAYED_BEFORE: "replayed before",
    ReplayOutcome.AT_CAP: "at the cap of redeliveries (--max-redeliveries)",
    ReplayOutcome.WITHOUT_BODY: "cut, because it was too large: its source must send it",
    ReplayOutcome.OF_ANOTHER_TOPIC: "from another raw topic than these settings'",
}
_STATES: Final = {
    ReplayOutcome.REPLAYED_BEFORE: "replayed",
    ReplayOutcome.AT_CAP: "at cap",
    ReplayOutcome.WITHOUT_BODY: "cut",
    ReplayOutcome.OF_ANOTHER_TOPIC: "other topic",
}


def summary_view(topic: str, summary: Summary) -> list[Block]:
    records, to_replay = summary.total
    lines: list[Block] = [f"{topic}: {counted(records, 'dead letter')}, {to_replay:,} to replay"]
    if summary.no_dead_letter:
        lines.append(f"  and {counted(summary.no_dead_letter, 'record')} in another form")
    if records:
        rows = [(reason, *count) for reason, count in sorted(summary.by_reason.items())]
        by_partition = [
            (f"partition {p}", *count) for p, count in sorted(summary.by_partition.items())
        ]
        head = ("", "dead letters", "to replay")
        numbers = [(name, f"{n:,}", f"{m:,}") for name, n, m in (*rows, *by_partition)]
        lines += ["", table([head, *numbers], "<>>", "  ")]
    if summary.newest:
        head_of = ("position", "time", "reason", "sent again", "state", "source", "key", "what")
        lines += ["", Listing(head_of, [*map(_row, summary.newest)], "<<<><<<<", "  ")]
        if len(summary.newest) < records:
            lines.append(f"  the newest {len(summary.newest):,} of {records:,}: --limit shows more")
    return lines


def state_name(state: ReplayOutcome | None) -> str:
    return "to replay" if state is None else _STATES[state]


def time_text(time_ms: int) -> str:
    """Return the time of a record; it may be invalid, and so the reason of the dead letter."""
    try:
        return format_rfc3339(time_ms)
    except UsageError:
        return f"{time_ms} ms"


def letter_view(letter: DeadLetter, bytes_max: int) -> list[Block]:
    """Return a dead letter; key, each header and value are cut to ``bytes_max`` bytes."""
    record = letter.record
    return [
        f"position      {record.position}",
        f"time          {time_text(record.timestamp_ms)}",
        f"source        {one_line(str(letter.source))}",
        f"reason        {one_line(letter.reason)}",
        f"what          {one_line(letter.detail)}",
        f"redeliveries  {letter.redeliveries}",
        "headers",
        *(
            line
            for name, value in record.headers
            for line in _block(f"  {escaped(name)}", value, bytes_max)
        ),
        *_block("key", record.key, bytes_max),
        *_block("value", record.value, bytes_max),
    ]


def account_view(
    account: Account, raw_topic: str, *, dry_run: bool, is_complete: bool
) -> list[Block]:
    sent = "would be sent again" if dry_run else "sent again"
    lines: list[Block] = [f"{account.sent:,} {sent} to {raw_topic}"]
    if not is_complete:
        lines.insert(0, "ended before all was replayed; repeat the command to continue. So far:")
    if account.under_way:
        lines.append(
            f"{account.under_way:,} in doubt: they were being sent. The command remembers what "
            f"was sent"
        )
    lines += [
        f"{account.outcomes[outcome]:,} {SAID[outcome]}"
        for outcome in ReplayOutcome
        if outcome is not ReplayOutcome.SENT and account.outcomes[outcome]
    ]
    if account.not_selected:
        lines.append(f"{account.not_selected:,} not of the given reasons")
    if account.no_dead_letter:
        lines.append(f"{account.no_dead_letter:,} no dead letters, but records in another form")
    for letter, why in account.left:
        source = one_line(str(letter.source))
        lines.append(f"  {letter.record.position} (of {source}): {_STATES[why]}")
    return lines


def _row(listed: Listed) -> tuple[str, ...]:
    letter = listed.letter
    position = letter.record.position
    return (
        f"{position.partition}@{position.offset}",
        time_text(letter.record.timestamp_ms),
        letter.reason,
        str(letter.redeliveries),
        state_name(listed.state),
        str(letter.source),
        one_line((letter.record.key or b"").decode(errors="replace"), _KEY_CELLS),
        one_line(letter.detail, _DETAIL_CELLS),
    )


def _block(name: str, content: bytes | None, bytes_max: int) -> Iterator[str]:
    if content is None:
        yield f"{name}: null"
        return
    more = len(content) - bytes_max
    shown = content[:bytes_max]
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
        yield f"    … {more:,} bytes more (--bytes N shows them)"


def _hex_lines(content: bytes) -> Iterator[str]:
    for start in range(0, len(content), _HEX_BYTES):
        row = content[start : start + _HEX_BYTES]
        signs = "".join(chr(each) if each in _PRINTED else "." for each in row)
        yield f"    {start:08x}  {row.hex(' '):<{3 * _HEX_BYTES - 1}}  {signs}"


def summary_object(topic: str, summary: Summary) -> dict[str, object]:
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
    """Return the outcomes; they add up to the number of selected records."""
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
