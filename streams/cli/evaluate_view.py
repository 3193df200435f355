"""What ``firstseen evaluate`` shows people: the figures, and what each of them says."""

from __future__ import annotations

from streams.offline.evaluation.quality import Quality
from streams.terminal.layout import Block, table


def evaluation_view(quality: Quality, file: str) -> list[Block]:
    """Return the figures, with what each says."""
    head = (
        f"{file}: {quality.documents:,} documents in {quality.seconds:.1f} s "
        f"({quality.documents_per_second:,.0f} a second), {quality.uniques:,} uniques"
    )
    rows = [
        (
            "recall",
            percent(quality.recall),
            f"of {quality.positives:,} labelled positives have the same original",
        ),
        *(
            (f"  jaccard {band}", percent(value), f"of {quality.positives_by_jaccard[band]:,}")
            for band, value in quality.recall_by_jaccard.items()
            if value is not None
        ),
        ("caught", percent(quality.caught), "of their later documents are duplicates of something"),
        (
            "precision",
            percent(quality.precision),
            f"of {quality.joined_pairs:,} joined pairs that can be judged are right",
        ),
        ("f1", percent(quality.f1), "harmonic mean of recall and precision"),
        (
            "false duplicates",
            percent(quality.false_duplicates),
            f"of {quality.duplicates:,} share less than half with the original they name",
        ),
    ]
    if quality.negatives:
        joined = f"{quality.negatives_joined:,}"
        rows.append(("negatives joined", joined, f"of {quality.negatives:,} labelled 0"))
    if quality.undecidable:
        rows.append(("undecidable", f"{quality.undecidable:,}", "too short to compare"))
    return [head, table(rows, "<><", "  "), f"index: {quality.index}"]


def percent(value: float | None) -> str:
    """Return a share in per cent, or a dash where it is not known."""
    return "-" if value is None else f"{value:.2%}"
