"""The rows of the dashboard on the stream: how much, how late, how good."""

from __future__ import annotations

from typing import Final

from deploy.grafana.panels import OF, Kind, Panel, Query, Row, each, quantile, rate, recorded, total

_DOCUMENTS: Final = "firstseen_documents_total"
_LATENCY: Final = "firstseen_end_to_end_latency_seconds"
_LOOP_LAG: Final = "firstseen_event_loop_lag_seconds"
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
            "Records behind",
            "Raw records to put out. It returns to 0 when input rests.",
            "short",
            (Query(f"sum({recorded('firstseen:consumer_lag_messages:sum')})"),),
            Kind.STAT,
            3,
        ),
        Panel(
            "Latency, 99%",
            "99 of 100 documents were put out within this time from the time of their record.",
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
            "Shards that are assigned to a worker and open.",
            "short",
            (Query(f"{total('firstseen_assigned_shards')} - {total('firstseen_opening_shards')}"),),
            Kind.STAT,
            3,
        ),
        Panel(
            "Stalled partitions",
            "Partitions where their worker had to act and made no progress: its /healthz fails.",
            "short",
            (Query(total("firstseen_stalled_partitions")),),
            Kind.STAT,
            3,
            red_from=1,
        ),
        Panel(
            "Broker down",
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
            width=12,
        ),
        Panel(
            "Documents by worker",
            "Outputs a second: is the work spread evenly?",
            "short",
            (Query(rate(_DOCUMENTS, "instance"), "{{instance}}"),),
            width=12,
        ),
    ),
)

LAG: Final = Row(
    "Lag and freshness",
    (
        Panel(
            "Lag",
            "Raw records behind, as the broker has it; correct also while consumers are stuck.",
            "short",
            (Query(recorded("firstseen:consumer_lag_messages:sum"), "{{topic}}"),),
            width=12,
        ),
        Panel(
            "Partitions furthest behind",
            "The ten partitions with the most records to process: a single one gets more than "
            "its share.",
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
            "Now less the time of the newest record put out. It rises while nothing comes.",
            "s",
            (Query(f"time() - max({each('firstseen_last_record_timestamp_seconds')} > 0)"),),
        ),
        Panel(
            "Late documents",
            "The share that took over a minute; the alert FreshnessSLO allows 1%.",
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
        Panel(
            "Outputs that their topic deletes at once",
            "Output records older than their topic's retention, a second.",
            "short",
            (Query(rate("firstseen_expired_outputs_total", "output"), "{{output}}"),),
            red_from=0.000001,
        ),
        Panel(
            "Oldest open transaction",
            "Committed readers stop where it begins. Workers end theirs within seconds; the alert "
            "HungTransaction fires after a quarter of an hour.",
            "s",
            (Query(f"max({each('firstseen_open_transaction_seconds')})"),),
            width=16,
            red_from=900,
        ),
    ),
)

LATENCY: Final = Row(
    "Latency",
    (
        Panel(
            "From record to output",
            "How many documents a second took how long, from the time of their record.",
            "s",
            (Query(rate(f"{_LATENCY}_bucket", "le"), "{{le}}"),),
            Kind.HEATMAP,
            12,
        ),
        Panel(
            "From record to output, quantiles",
            "Half of the documents, nine of ten, 99 of 100 were put out within this time.",
            "s",
            tuple(Query(quantile(part, _LATENCY), f"{part:.0%}") for part in (0.5, 0.9, 0.99)),
            width=12,
        ),
        Panel(
            "Time of a batch by step",
            "The mean time of one batch in each step, waiting for the broker included.",
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
            "CPU time by step",
            "Cores that each step uses, all workers together, without the Kafka client's threads.",
            "short",
            (Query(rate("firstseen_stage_cpu_seconds_total", "stage"), "{{stage}}"),),
            width=12,
            stacked=True,
        ),
        Panel(
            "Event loop lag by worker",
            "99 of 100 steps that were due began within this time; the alert EventLoopBlocked "
            "allows half a second.",
            "s",
            (
                Query(
                    f"histogram_quantile(0.99, {rate(f'{_LOOP_LAG}_bucket', 'instance, le')})",
                    "{{instance}}",
                ),
            ),
            width=12,
            red_from=0.5,
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
            width=12,
            red_from=1000,
        ),
        Panel(
            "Documents in the fullest bucket",
            "Of a sample of documents: half, 99% and nearly all have no more in any bucket.",
            "short",
            tuple(
                Query(quantile(part, "firstseen_bucket_documents"), f"{part:.1%}")
                for part in (0.5, 0.99, 0.999)
            ),
            width=12,
        ),
        Panel(
            "Distances of duplicates",
            "Bits by which duplicates differ from their originals, over the time shown. If "
            "many lie just below the threshold, it is too low.",
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
            "Sizes of the fullest buckets",
            "How many documents of the sample had how many in their fullest bucket, over the time "
            "shown.",
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

FLOW: Final = (OVERVIEW, THROUGHPUT, LAG)
QUALITY_ROWS: Final = (LATENCY, QUALITY)
