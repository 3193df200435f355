"""The rows of the dashboard on the stream: how much, how late, how good."""

from __future__ import annotations

from typing import Final

from deploy.grafana.panels import OF, Kind, Panel, Query, Row, each, quantile, rate, recorded, total

_DOCUMENTS: Final = "firstseen_documents_total"
_LATENCY: Final = "firstseen_end_to_end_latency_seconds"
_STAGE: Final = "firstseen_stage_duration_seconds"
_LAG: Final = "firstseen_consumer_lag_messages"
_DUPLICATES: Final = 'verdict=~"exact_duplicate|near_duplicate"'
_READ: Final = 'verdict!="dead_letter"'

OVERVIEW: Final = Row(
    "Overview",
    (
        Panel(
            "Documents a second",
            "Records decided, dead letters included, by all workers together.",
            "short",
            (Query(rate(_DOCUMENTS)),),
            Kind.STAT,
            3,
        ),
        Panel(
            "Share of duplicates",
            "Exact and near duplicates among the documents that could be read, over 30 minutes.",
            "percentunit",
            (Query(recorded("firstseen:duplicate_ratio:rate30m"), "{{job}}"),),
            Kind.STAT,
            3,
        ),
        Panel(
            "Messages behind",
            "Raw records and internal messages to read. It comes back to 0 when input rests.",
            "short",
            (Query(f"sum({recorded('firstseen:consumer_lag_messages:sum')})"),),
            Kind.STAT,
            3,
        ),
        Panel(
            "Latency, 99%",
            "99 of 100 documents had their verdict so long after the time of their record.",
            "s",
            (Query(quantile(0.99, _LATENCY)),),
            Kind.STAT,
            3,
        ),
        Panel(
            "Workers",
            "Workers that answer Prometheus.",
            "short",
            (Query(f"sum(up{{{OF}}})"),),
            Kind.STAT,
            3,
        ),
        Panel(
            "Shards open",
            "Shards that are assigned to a worker and have caught up with their changelog.",
            "short",
            (Query(f"{total('firstseen_assigned_shards')} - {total('firstseen_opening_shards')}"),),
            Kind.STAT,
            3,
        ),
        Panel(
            "Stalled partitions",
            "Partitions with messages and no progress: /healthz of their worker fails.",
            "short",
            (Query(total("firstseen_stalled_partitions")),),
            Kind.STAT,
            3,
            red_from=1,
        ),
        Panel(
            "Broker away",
            "Workers that the broker does not answer.",
            "short",
            (Query(f"count({each('firstseen_broker_up')}) - {total('firstseen_broker_up')}"),),
            Kind.STAT,
            3,
            red_from=1,
        ),
    ),
)

THROUGHPUT: Final = Row(
    "Throughput and verdicts",
    (
        Panel(
            "Documents by verdict",
            "Where records end, a second. Undecidable: too little text, matched by content only.",
            "short",
            (Query(rate(_DOCUMENTS, "verdict"), "{{verdict}}"),),
            width=12,
            stacked=True,
        ),
        Panel(
            "Share of duplicates",
            "Now, and the half hour that the alert DuplicateRatioAnomaly looks at.",
            "percentunit",
            (
                Query(
                    f"{rate(_DOCUMENTS, '', _DUPLICATES)} / {rate(_DOCUMENTS, '', _READ)}", "now"
                ),
                Query(recorded("firstseen:duplicate_ratio:rate30m"), "30 minutes, {{job}}"),
            ),
            width=12,
        ),
        Panel(
            "Input",
            "Bytes of raw records read, by worker.",
            "Bps",
            (Query(rate("firstseen_input_bytes_total", "instance"), "{{instance}}"),),
        ),
        Panel(
            "Documents by worker",
            "Verdicts a second: is the work spread evenly?",
            "short",
            (Query(rate(_DOCUMENTS, "instance"), "{{instance}}"),),
        ),
        Panel(
            "Messages between shards",
            "What it costs that documents visit several shards; see the documentation on scale.",
            "short",
            (Query(rate("firstseen_internal_messages_total", "kind"), "{{kind}}"),),
            stacked=True,
        ),
    ),
)

LAG: Final = Row(
    "Lag and freshness",
    (
        Panel(
            "Lag by topic",
            "Messages behind, as the broker tells; also while consumers stand still.",
            "short",
            (Query(recorded("firstseen:consumer_lag_messages:sum"), "{{topic}}"),),
            width=12,
        ),
        Panel(
            "Partitions furthest behind",
            "The ten partitions with the most messages to read: one alone is unevenly filled.",
            "short",
            (
                Query(
                    f"topk(10, max by (topic, partition) ({each(_LAG)}))",
                    "{{topic}}/{{partition}}",
                ),
            ),
            width=12,
        ),
        Panel(
            "Age of the newest document",
            "Now less the time of the newest record decided. It rises while nothing comes.",
            "s",
            (Query(f"time() - max({each('firstseen_last_record_timestamp_seconds')} > 0)"),),
        ),
        Panel(
            "Late documents",
            "The share whose verdict took over a minute; the alert FreshnessSLO allows 1%.",
            "percentunit",
            (Query(recorded("firstseen:late_documents:ratio_rate5m"), "{{job}}"),),
            red_from=0.01,
        ),
        Panel(
            "Records lost before they were read",
            "Offsets that the raw topic's retention deleted first, a second.",
            "short",
            (Query(f"{rate('firstseen_skipped_messages_total')} or vector(0)", "skipped offsets"),),
            red_from=0.000001,
        ),
    ),
)

LATENCY: Final = Row(
    "Latency",
    (
        Panel(
            "From record to verdict",
            "How many documents a second took how long, from the time of their record.",
            "s",
            (Query(rate(f"{_LATENCY}_bucket", "le"), "{{le}}"),),
            Kind.HEATMAP,
            12,
        ),
        Panel(
            "From record to verdict, quantiles",
            "Half of the documents, nine of ten, 99 of 100 had their verdict within this time.",
            "s",
            tuple(Query(quantile(part, _LATENCY), f"{part:.0%}") for part in (0.5, 0.9, 0.99)),
            width=12,
        ),
        Panel(
            "Time of a batch by step",
            "The mean time of one batch: fingerprint and look-up are ours, send is the broker's.",
            "s",
            (
                Query(
                    f"{rate(f'{_STAGE}_sum', 'stage')} / {rate(f'{_STAGE}_count', 'stage')}",
                    "{{stage}}",
                ),
            ),
            width=12,
        ),
        Panel(
            "Time spent by step",
            "Seconds a second in each step, all workers together: where the time goes.",
            "s",
            (Query(rate(f"{_STAGE}_sum", "stage"), "{{stage}}"),),
            width=12,
            stacked=True,
        ),
    ),
)

QUALITY: Final = Row(
    "Index quality",
    (
        Panel(
            "Candidates per look-up",
            "Documents that a look-up compares with; more in a larger index, or in hot buckets.",
            "short",
            (
                Query(
                    f"{rate('firstseen_candidates_per_lookup_sum')}"
                    f" / {rate('firstseen_candidates_per_lookup_count')}",
                    "now",
                ),
                Query(recorded("firstseen:candidates_per_lookup:mean_rate15m"), "15 minutes"),
            ),
            red_from=1000,
        ),
        Panel(
            "Documents in a bucket",
            "Of buckets that look-ups read, one look-up in 32: 99% and nearly all have no more.",
            "short",
            tuple(
                Query(quantile(part, "firstseen_bucket_documents"), f"{part:.1%}")
                for part in (0.5, 0.99, 0.999)
            ),
        ),
        Panel(
            "Waiting for another document",
            "Documents parked behind an undecided one. It comes back to 0.",
            "short",
            (Query(total("firstseen_parked_documents"), "parked"),),
        ),
        Panel(
            "Distances of duplicates",
            "Bits by which duplicates differ from their originals, over the time shown. A heap "
            "just below the threshold says that it is low.",
            "short",
            (
                Query(
                    f"sum by (le) (increase(firstseen_distance_bits_bucket{{{OF}}}[$__range]))",
                    "{{le}}",
                ),
            ),
            Kind.BARS,
            12,
        ),
        Panel(
            "Sizes of buckets",
            "How many buckets that look-ups read have how many documents, over the time shown.",
            "short",
            (
                Query(
                    f"sum by (le) (increase(firstseen_bucket_documents_bucket{{{OF}}}[$__range]))",
                    "{{le}}",
                ),
            ),
            Kind.BARS,
            12,
        ),
    ),
)

ROWS: Final = (OVERVIEW, THROUGHPUT, LAG, LATENCY, QUALITY)
