"""``firstseen evaluate``: measure recall and precision on documents that you have labelled."""

from __future__ import annotations

from pathlib import Path

import click

from streams.cli import options


@click.command(
    cls=options.ProfileCommand,
    short_help="Measure recall and precision on documents you have labelled.",
)
@click.option(
    "--documents",
    required=True,
    metavar="FILE",
    help="JSON lines with id, text and, optional, title and group; gzip if it ends in .gz.",
)
@click.option(
    "--pairs",
    required=True,
    metavar="FILE",
    help="Tab-separated, under a header: id1, id2, label (1, 0, -1: do not score), and jaccard.",
)
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="PAGE",
    help="Write a page with distances, thresholds, misses and false joins: one HTML file.",
)
@options.json_option
@options.with_profile_settings
def command(
    settings: options.Settings, *, documents: str, pairs: str, report: Path | None, as_json: bool
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
    """  # noqa: D301 - \b is click's mark for "leave the lines as they are"
    from streams.cli.evaluate_view import evaluation_view
    from streams.evaluation.evaluation import evaluate, read_labelled
    from streams.evaluation.report_page import report_content, report_page
    from streams.terminal.layout import progress_bar

    with progress_bar() as watch:
        if report is None:
            labelled = read_labelled(documents, pairs, settings)
            quality = evaluate(labelled, settings, watch=watch).quality
        else:
            with options.open_page(report, "w") as page:
                content = report_content((documents, pairs), settings, watch)
                page.write(report_page(content))
            quality = content.quality
    options.write_blocks("evaluate", quality, evaluation_view(quality, documents), as_json=as_json)
