"""``firstseen tune``: find profile and threshold for a precision that you want."""

from __future__ import annotations

import click

from simhash_core.errors import UsageError
from streams.cli import options


@click.command(
    cls=options.ProfileCommand,
    short_help="Find profile and threshold for a precision that you want.",
)
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
    "Share of joined pairs that must be right.",
    default=0.99,
    metavar="P",
)
@options.number_option(
    "--sample",
    click.IntRange(10, 20_000),
    "Number of documents to draw if there are no pairs.",
    default=1_000,
)
@click.option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    metavar="N",
    help="Seed of the draw and the edits.",
)
@options.json_option
@options.with_profile_settings
def command(
    settings: options.Settings,
    *,
    documents: str,
    pairs: str | None,
    precision: float,
    sample: int,
    seed: int,
    as_json: bool,
) -> None:
    """Try profiles and thresholds on documents, and recommend one for the precision that you want.

    With --pairs it uses documents that you have labelled. Without, it draws documents from your own
    and makes edited copies: words and sentences replaced, inserted, removed or reordered, texts
    cut, boilerplate added, typography changed. It tries all profiles, or only that of --profile,
    each with your other settings.

    \b
    Examples:
      firstseen tune --documents news.jsonl.gz
      firstseen tune --documents news.jsonl.gz --pairs news.tsv --precision 0.995
      firstseen tune --documents news.jsonl --profile wide --sample 3000 --json
    """  # noqa: D301 - \b is click's mark for "leave the lines as they are"
    import tempfile
    from pathlib import Path

    import msgspec

    from simhash_core.text.profiles import PROFILES
    from streams.cli.evaluate_view import tuned_view
    from streams.evaluation.evaluation import read_labelled
    from streams.evaluation.injected_edits import inject
    from streams.evaluation.tuning import DOCUMENTS_MAX, tune
    from streams.terminal.layout import progress_bar

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
                f"{documents} has {len(labelled.documents.ids):,} documents, {DOCUMENTS_MAX:,} can "
                "be tuned on: give a part of them, with the pairs of that part"
            )
        tried = [(name, msgspec.structs.replace(settings, profile=name)) for name in names]
        tuned = tune(labelled, tried, precision, watch)
    counts = None if injected is None else injected._asdict()
    if counts is not None:
        del counts["labelled"]
    content = {**msgspec.structs.asdict(tuned), "injected": counts}
    options.write_blocks("tune", content, tuned_view(tuned, injected), as_json=as_json)
