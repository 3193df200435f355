"""``firstseen plan``: estimate the size and the recall of an index before it exists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from streams.cli import options

if TYPE_CHECKING:
    from streams.offline.index_plan import IndexPlan
    from streams.terminal.layout import Block

_UNITS: Final = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"]
_BARS: Final = 20


@click.command(cls=options.ProfileCommand)
@options.number_option(
    "--documents",
    click.IntRange(0, 10**15),
    "Number of unique documents in the index.",
    required=True,
)
@options.number_option(
    "--partitions",
    click.IntRange(1, 4096),
    "Number of raw partitions, each of which is a shard. [default: a suggested number]",
    metavar="P",
)
@options.number_option(
    "--workers",
    click.IntRange(1, 4096),
    "Number of workers; they share memory and candidates.",
    default=1,
    metavar="W",
)
@options.with_planned_settings
def plan(
    settings: options.Settings, *, documents: int, partitions: int | None, workers: int
) -> None:
    """Estimate candidates, bytes on disk and in memory, partitions and recall of an index.

    The estimate assumes random fingerprints, which fill all buckets equally; with real texts some
    buckets are fuller. With --bits or --blocks and without --profile, the other values are those of
    classic, and blocks divide the fingerprint evenly.

    \b
    Examples:
      firstseen plan --documents 100000000 --workers 4
      firstseen plan --documents 17179869184 --bits 64 --blocks 4 --distance 3
      firstseen plan --documents 5000000 --bits 256 --blocks 21 --block-bits 12 --distance 56 --json
    """
    from streams.offline.index_plan import plan_index

    plan = plan_index(documents, settings.index_profile(), partitions, workers)
    options.write_answer("plan", plan, _view(plan))


def _view(plan: IndexPlan) -> list[Block]:
    from streams.terminal.layout import table

    cuts = " in each of 2 cuts" if plan.buckets_per_document - plan.bands > plan.blocks else ""
    cuts_of = [f"{plan.blocks} blocks of {plan.block_bits}{cuts}"] if plan.blocks else []
    cuts_of += [f"{plan.bands} bands"] if plan.bands else []
    size = f"{plan.documents:,} unique documents, {plan.bits} bits"
    view: list[Block] = [f"{size}, {', '.join(cuts_of)}, near up to {plan.distance} bits"]
    if plan.sketch_bytes:
        mean = (
            f", mean with the similarity of the fingerprints at {plan.mean_at:g}"
            if plan.mean_at
            else ""
        )
        sketch = f"a sketch: {plan.sketch_bytes} bytes"
        view.append(f"second check: {plan.verify} at {plan.verify_at:g}{mean} ({sketch})")
    view.append(table(_costs(plan), "<><", "  "))
    if plan.advice:
        view += ["", f"Too many candidates: {plan.advice}."]
    if plan.guaranteed:
        promise = "Guaranteed: any two documents within the distance share a block."
    elif plan.blocks:
        promise = "Not guaranteed: pairs within the distance share a block with this chance."
    else:
        promise = "Not guaranteed: the chance that a pair shares a band depends on its similarity."
    view += ["", promise]
    distances = [
        (f"{each.distance} bits", *_chance(each.recall)) for each in plan.recall_by_distance
    ]
    if distances:
        view.append(table(distances, ">><", "  "))
    jaccards = [(f"{each.jaccard:g}", *_chance(each.recall)) for each in plan.recall_by_jaccard]
    return [
        *view,
        "",
        (
            "Expected recall before the second check, by Jaccard of character 5-grams, for evenly "
            "spread edits of single characters (the hardest kind; 'firstseen evaluate' measures "
            "your documents):"
        ),
        table(jaccards, ">><", "  "),
    ]


def _costs(plan: IndexPlan) -> list[tuple[str, str, str]]:
    shared = plan.workers > 1
    suggested = plan.partitions_suggested
    advice = "" if plan.partitions == suggested else f"; {suggested:,} are suggested"
    partition = f"of {_bytes_in_words(plan.state_bytes_per_partition)} each{advice}"
    block, share = f"{plan.candidates_per_block:,}", f"{plan.candidates_per_worker:,}"
    wire = f"{plan.wire_bytes_per_document:,} bytes"
    buckets = _bytes_in_words(plan.memory_bytes_per_worker)
    rows = [
        (plan.blocks, "candidates per block", block, "of random fingerprints"),
        (
            True,
            "candidates per look-up",
            f"{plan.candidates_per_lookup:,}",
            "more for similar texts",
        ),
        (shared, "candidates per worker", share, "in its part of the index"),
        (True, "a look-up", f"{plan.lookup_us:,} µs", "of CPU time on each worker"),
        (True, "log, changelog", wire, "per document, uncompressed"),
        (True, "state per document", f"{plan.state_bytes_per_document:,} bytes", "on disk"),
        (True, "state", _bytes_in_words(plan.state_bytes), "on disk"),
        (True, "buckets per document", f"{plan.memory_bytes_per_document:,} bytes", "of these"),
        (
            True,
            "buckets",
            _bytes_in_words(plan.memory_bytes),
            "fast while they fit in the page cache",
        ),
        (shared, "buckets per worker", buckets, ""),
        (True, "partitions", f"{plan.partitions:,}", partition),
    ]
    return [(name, figure, note) for is_shown, name, figure, note in rows if is_shown]


def _bytes_in_words(size: float) -> str:
    from rich.filesize import pick_unit_and_suffix

    unit, name = pick_unit_and_suffix(int(size), _UNITS, 1024)
    return f"{size / unit:,.1f} {name}" if unit > 1 else f"{size:,.0f} {name}"


def _chance(recall: float) -> tuple[str, str]:
    return f"{recall:.1%}", "█" * round(recall * _BARS)
