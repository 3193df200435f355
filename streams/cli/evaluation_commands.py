"""``firstseen evaluate`` and ``tune``: measure recall and precision, and choose thresholds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from simhash_core.errors import UsageError
from streams.cli import options
from streams.terminal.layout import Block, progress_bar, table

if TYPE_CHECKING:
    from streams.evaluation.evaluation import Quality
    from streams.evaluation.injected_edits import InjectedSample
    from streams.evaluation.tuning import Tuned, TunedPoint
    from streams.settings.settings import IndexSettings

_MARK: Final = "*"


@click.command(cls=options.ProfileCommand)
@click.option(
    "--documents",
    required=True,
    metavar="FILE",
    help="JSON lines with id, text and optionally title and group; gzip if the name ends in .gz.",
)
@click.option(
    "--pairs",
    required=True,
    metavar="FILE",
    help="Tab-separated, with a header: id1, id2, label (1, 0, -1: do not score), and jaccard.",
)
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="PAGE",
    help="Write an HTML page with distances, thresholds, misses and false joins.",
)
@options.with_profile_settings
def evaluate(
    settings: options.Settings, *, documents: str, pairs: str, report: Path | None
) -> None:
    """Deduplicate labelled documents in file order, and compare the result with the labels.

    Two documents are joined when they have the same original. recall: labelled positives that are
    joined. caught: those whose later document is a duplicate of anything. precision: joined pairs
    of one group, of all joined pairs (without groups: by label). false_duplicates: duplicates
    that share less than half of their character 5-grams with the original that they name.

    \b
    Examples:
      firstseen evaluate --documents news.jsonl.gz --pairs news.tsv
      firstseen evaluate --documents news.jsonl --pairs news.tsv --profile classic --json
      firstseen evaluate --documents news.jsonl --pairs news.tsv --distance 40 --report page.html
    """
    from streams.evaluation.evaluation import evaluate, read_labelled
    from streams.evaluation.report_page import report_page

    with progress_bar() as watch:
        if report is None:
            labelled = read_labelled(documents, pairs, settings)
            quality = evaluate(labelled, settings, watch=watch).quality
        else:
            options.check_page(report, documents, pairs)
            text, quality = report_page((documents, pairs), settings, watch)
            report.write_text(text, "utf-8")
    options.write_answer("evaluate", quality, _evaluation_view(quality, documents))


def _evaluation_view(quality: Quality, file: str) -> list[Block]:
    head = (
        f"{file}: {quality.documents:,} documents in {quality.seconds:.1f} s "
        f"({quality.documents_per_second:,.0f} per second), {quality.uniques:,} uniques"
    )
    of = f"of {quality.positives:,} labelled positives have the same original"
    joined = f"of {quality.joined_pairs:,} joined pairs that can be judged are correct"
    false = f"of {quality.duplicates:,} share less than half with their original"
    shares = [
        ("recall", quality.recall, of),
        *(
            (f"  jaccard {band}", value, f"of {quality.positives_by_jaccard[band]:,}")
            for band, value in quality.recall_by_jaccard.items()
            if value is not None
        ),
        ("caught", quality.caught, "of their later documents are duplicates of any document"),
        ("precision", quality.precision, joined),
        ("f1", quality.f1, "harmonic mean of recall and precision"),
        ("false duplicates", quality.false_duplicates, false),
    ]
    rows = [(name, _percent(share), note) for name, share, note in shares]
    if quality.negatives:
        note = f"of {quality.negatives:,} labelled 0"
        rows.append(("negatives joined", f"{quality.negatives_joined:,}", note))
    if quality.undecidable:
        rows.append(("undecidable", f"{quality.undecidable:,}", "too short to compare"))
    return [head, table(rows, "<><", "  "), f"index: {quality.index}"]


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2%}"


@click.command(cls=options.ProfileCommand)
@click.option(
    "--documents",
    required=True,
    metavar="FILE",
    help="JSON lines as for 'firstseen evaluate'; without --pairs, a sample of your stream.",
)
@click.option(
    "--pairs", metavar="FILE", help="Labelled pairs. Without them, the command makes edited copies."
)
@options.number_option(
    "--precision",
    click.FloatRange(0.5, 0.9999),
    "Minimum share of joined pairs that must be correct.",
    default=0.99,
    metavar="P",
)
@options.number_option(
    "--sample",
    click.IntRange(10, 20_000),
    "Number of documents to draw if there are no pairs.",
    default=1_000,
)
@options.number_option("--seed", click.IntRange(0), "Seed of the draw and the edits.", default=1)
@options.with_profile_settings
def tune(
    settings: options.Settings,
    *,
    documents: str,
    pairs: str | None,
    precision: float,
    sample: int,
    seed: int,
) -> None:
    """Try profiles and thresholds on documents, and recommend one for a precision.

    With --pairs, the command uses documents that you have labelled. Without, it draws documents at
    random from yours and makes edited copies: words and sentences replaced, inserted, removed or
    reordered, texts cut, boilerplate added, typography changed. It tries all profiles, or only that
    of --profile, each with your other settings.

    \b
    Examples:
      firstseen tune --documents news.jsonl.gz
      firstseen tune --documents news.jsonl.gz --pairs news.tsv --precision 0.995
      firstseen tune --documents news.jsonl --profile wide --sample 3000 --json
    """
    import tempfile

    import msgspec

    from simhash_core.text.profiles import PROFILES
    from streams.evaluation.evaluation import read_labelled
    from streams.evaluation.injected_edits import inject
    from streams.evaluation.tuning import DOCUMENTS_MAX, tune

    profile_flag = click.get_current_context().params.get("profile")
    names = list(PROFILES) if profile_flag is None else [settings.profile]
    with progress_bar() as watch, tempfile.TemporaryDirectory(prefix="firstseen-") as directory:
        injected = None
        if pairs is None:
            watch("drawing a sample", 0, 1)
            injected = inject(
                documents, settings, Path(directory), size=sample, copies=1, seed=seed
            )
            labelled = injected.labelled
            settings = msgspec.structs.replace(settings, fields=type(settings.fields)())
        else:
            labelled = read_labelled(documents, pairs, settings)
        if len(labelled.documents.ids) > DOCUMENTS_MAX:
            raise UsageError(
                f"{documents} has {len(labelled.documents.ids):,} documents, tuning allows "
                f"{DOCUMENTS_MAX:,}: give a part of them, with the pairs of that part"
            )
        tried = [(name, msgspec.structs.replace(settings, profile=name)) for name in names]
        tuned = tune(labelled, tried, precision, watch)
    counts = None if injected is None else injected._asdict()
    if counts is not None:
        del counts["labelled"]
    content = {**msgspec.structs.asdict(tuned), "injected": counts}
    options.write_answer("tune", content, tuned_view(tuned, injected, settings.index))


def tuned_view(tuned: Tuned, sample: InjectedSample | None, index: IndexSettings) -> list[Block]:
    """Return the answer for people; ``index`` has the settings with which all points were tried."""
    lines: list[Block]
    if sample is None:
        lines = [f"{tuned.documents:,} documents, {tuned.positives:,} labelled positives"]
    else:
        drawn = f"{sample.drawn:,} documents drawn, {sample.repeats:,} repeats among them removed"
        lines = [
            f"{drawn}; {sample.copies:,} edited copies of {sample.originals:,},",
            f"{tuned.positives:,} of which share half or more with their original.",
            "These edits only imitate real ones: labelled pairs are better evidence.",
        ]
    lines += ["", _curve(tuned), ""]
    wanted = f"{tuned.precision_wanted:.2%}"
    point = tuned.recommended
    if point is None:
        return [
            *lines,
            f"None of the tried thresholds reaches a precision of {wanted}.",
            "Try others with --distance, --verify-at or --mean-at, or a lower --precision.",
        ]
    if tuned.enough:
        sure = "."
    elif tuned.pairs_needed is None:
        sure = (
            f", which does not show {wanted}; more pairs with this share would not show it "
            "either. Use a lower --precision."
        )
    else:
        sure = (
            f", which does not show {wanted} yet: the sample is too small. If the share stays the "
            f"same, {tuned.pairs_needed:,} joined pairs show it: use a sample that is about "
            f"{tuned.pairs_needed / point.joined_pairs:.1f} times as large."
        )
    return [
        *lines,
        (
            f"For a precision of {wanted} use ({_MARK}): recall {_percent(point.recall)} (likely "
            f"{_percent(point.recall_low)} or more)"
        ),
        "",
        f'  profile = "{point.profile}"',
        "  [index]",
        *_index_lines(point, index),
        "",
        (
            f"Of the {point.joined_pairs:,} pairs that it joined, {_percent(point.precision)} are "
            f"correct. So a precision of {_percent(point.precision_low)} or more is likely{sure}"
        ),
    ]


def _index_lines(point: TunedPoint, index: IndexSettings) -> list[str]:
    """Return the settings of a point for a file: the thresholds, and what else was not a default.

    Without the rest, such as another second check, the thresholds would mean something else.
    """
    import msgspec

    thresholds = {
        "distance": point.distance,
        "verify_at": point.verify_at,
        "mean_at": point.mean_at or (None if index.mean_at is None else 0.0),
    }
    settings = thresholds | {
        name: value
        for name, value in msgspec.structs.asdict(index).items()
        if name not in thresholds
    }
    return [
        f"  {name} = {msgspec.json.encode(value).decode()}"
        for name, value in settings.items()
        if value is not None
    ]


def _curve(tuned: Tuned) -> Block:
    def order(each: TunedPoint) -> tuple[str, float, float, int]:
        return each.profile, each.mean_at or 0.0, each.verify_at or 0.0, each.distance

    thresholds = ("profile", "distance", "verify_at", "mean_at")
    rows = [
        (
            _MARK if point == tuned.recommended else "",
            point.profile,
            str(point.distance),
            *("-" if at is None else f"{at:g}" for at in (point.verify_at, point.mean_at)),
            *map(_percent, (point.recall, point.precision, point.precision_low, point.f1)),
        )
        for point in sorted(tuned.curve, key=order)
    ]
    head = ("", *thresholds, "recall", "precision", "likely ≥", "F1")
    return table([head, *rows], "<<>>>>>>>")
