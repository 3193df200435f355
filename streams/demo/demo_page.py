"""The page of ``demo --report``: figures, pairs side by side, dead letters with their reasons."""

from __future__ import annotations

from typing import NamedTuple

from streams.demo.examples import Examples, Pair
from streams.demo.report import DemoReport
from streams.offline.pages import ShownText, page, text_pair


class _ShownPair(NamedTuple):
    facts: str
    first: ShownText
    second: ShownText


def demo_page(report: DemoReport, examples: Examples) -> str:
    """Return the page."""
    pairs, refused = examples.pairs(), examples.refused()
    return page(
        "demo.html",
        f"Duplicates in {report.input or f'generated documents, seed {report.seed}'}",
        {
            "profile": report.profile,
            "tiles": _tiles(report),
            "pairs": [_shown(pair) for pair in pairs],
            "duplicates": f"{report.duplicates:,}",
            "reasons": [
                (reason, f"{count:,}") for reason, count in report.dead_letters_by_reason.items()
            ],
            "refused": refused,
            "dead_letters": f"{report.dead_letters:,}",
        },
    )


def _tiles(report: DemoReport) -> list[tuple[str, str, str]]:
    records = max(1, report.documents)
    return [
        ("Records", f"{report.documents:,}", f"{report.documents_per_second:,.0f} a second"),
        ("Unique", f"{report.unique:,}", f"{report.unique / records:.1%}"),
        (
            "Near duplicates",
            f"{report.near_duplicates:,}",
            f"{report.near_duplicates / records:.1%}",
        ),
        ("Exact duplicates", f"{report.exact_duplicates:,}", "of the same content"),
        ("Dead letters", f"{report.dead_letters:,}", "could not be read"),
        ("Too short", f"{report.undecidable:,}", "compared by exact content only"),
    ]


def _shown(pair: Pair) -> _ShownPair:
    duplicate = pair.duplicate
    facts = (
        "the same content"
        if duplicate.method == "exact"
        else f"{duplicate.distance} of {duplicate.bits} bits differ"
    )
    return _ShownPair(facts, *text_pair(pair.original, pair.copy, ("original", "duplicate")))
