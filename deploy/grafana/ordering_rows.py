"""The row of the dashboard on the log: who leads, what is undecided, and what is under way."""

from __future__ import annotations

from typing import Final

from deploy.grafana.panels import OF, RATE, Panel, Query, Row, each, rate


def _highest(metric: str) -> str:
    """The rate of a counter at the worker with the highest count: all of them read the same log."""
    return f"max(rate({metric}{{{OF}}}{RATE}))"


ORDERING: Final = Row(
    "Ordering and deciding",
    (
        Panel(
            "Leader",
            "1 for the worker that decides. The owner of raw partition 0 leads.",
            "short",
            (Query(each("firstseen_leader"), "{{instance}}"),),
        ),
        Panel(
            "Undecided documents",
            "Documents in the log without a verdict, as each worker reads it. It returns to 0.",
            "short",
            (Query(each("firstseen_undecided_documents"), "{{instance}}"),),
        ),
        Panel(
            "Age of the oldest undecided document",
            "For how long it has had no verdict; the alert UndecidedTooLong allows a minute.",
            "s",
            (Query(each("firstseen_undecided_oldest_seconds"), "{{instance}}"),),
            red_from=60,
        ),
        Panel(
            "Log lag",
            "Records of the log that each worker still has to read.",
            "short",
            (
                Query(
                    f"{each('firstseen_log_end_offset')} - {each('firstseen_log_position_offset')}",
                    "{{instance}}",
                ),
            ),
        ),
        Panel(
            "Shards whose report is missing",
            "Shards that the leader waits for. A line that stays names the one that holds up all.",
            "short",
            (
                Query(
                    f"max by (partition) ({each('firstseen_report_missing')}) or vector(0)",
                    "shard {{partition}}",
                ),
            ),
        ),
        Panel(
            "Records of the log that do not count",
            "Packets skipped, control records refused and records of another index, a second. The "
            "first two come with rebalances and new leaders; the third must not.",
            "short",
            (
                Query(_highest("firstseen_packets_skipped_total"), "packets skipped"),
                Query(
                    _highest("firstseen_control_records_refused_total"), "control records refused"
                ),
                Query(_highest("firstseen_foreign_records_total"), "of another index"),
            ),
        ),
        Panel(
            "Documents in flight",
            "Raw records that each worker has read and not put out; bounded by its settings.",
            "short",
            (Query(each("firstseen_in_flight_documents"), "{{instance}}"),),
        ),
        Panel(
            "Bytes in flight",
            "Bytes of raw records that each worker has read and not put out.",
            "bytes",
            (Query(each("firstseen_in_flight_bytes"), "{{instance}}"),),
        ),
        Panel(
            "Bytes to internal topics",
            "What ordering, reporting and state cost the broker, by topic.",
            "Bps",
            (Query(rate("firstseen_internal_bytes_total", "topic"), "{{topic}}"),),
            stacked=True,
        ),
    ),
)


ROWS: Final = (ORDERING,)
