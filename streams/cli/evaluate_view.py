"""Output of ``firstseen evaluate`` and ``tune``."""

from __future__ import annotations

from typing import Final

from streams.evaluation.evaluation import Quality
from streams.evaluation.injected_edits import InjectedSample
from streams.evaluation.tuning import Tuned, TunedPoint
from streams.terminal.layout import Block, table

_MARK: Final = "*"


def evaluation_view(quality: Quality, file: str) -> list[Block]:
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
    return "-" if value is None else f"{value:.2%}"


def tuned_view(tuned: Tuned, sample: InjectedSample | None) -> list[Block]:
    lines: list[Block] = [*_sample_lines(tuned, sample), "", _curve(tuned), ""]
    wanted = f"{tuned.precision_wanted:.2%}"
    point = tuned.recommended
    if point is None:
        lines.append(f"No threshold that was tried reaches a precision of {wanted}.")
        lines.append("Try others with --distance or --verify-at, or a lower --precision.")
        return lines
    lines.append(
        f"For a precision of {wanted} take ({_MARK}): recall {percent(point.recall)} "
        f"(likely {percent(point.recall_low)} or more)"
    )
    lines += ["", *(f"  {line}" for line in settings_lines(point)), ""]
    found = (
        f"Of the {point.joined_pairs:,} pairs that it joined, {percent(point.precision)} are "
        f"right. So a precision of {percent(point.precision_low)} or more is likely"
    )
    if tuned.enough:
        lines.append(f"{found}.")
    elif tuned.pairs_needed is None:
        lines.append(
            f"{found}, which does not show {wanted}; nor would more pairs with this share. Ask for "
            "less with --precision."
        )
    else:
        lines.append(
            f"{found}, which does not show {wanted} yet: the sample is too small. If the share "
            f"stays the same, {tuned.pairs_needed:,} joined pairs show it: take a sample that is "
            f"about {tuned.pairs_needed / point.joined_pairs:.1f} times as large."
        )
    return lines


def settings_lines(point: TunedPoint) -> list[str]:
    lines = [f'profile = "{point.profile}"', "[index]", f"distance = {point.distance}"]
    if point.verify_at is not None:
        lines.append(f"verify_at = {point.verify_at:g}")
    return lines


def _sample_lines(tuned: Tuned, sample: InjectedSample | None) -> list[str]:
    if sample is None:
        return [f"{tuned.documents:,} documents, {tuned.positives:,} labelled positives"]
    drawn = f"{sample.drawn:,} documents drawn, {sample.repeats:,} repeats among them left out"
    copies = f"{sample.copies:,} edited copies of {sample.originals:,}"
    return [
        f"{drawn}; {copies},",
        f"{tuned.positives:,} of which share half or more with their original.",
        "These edits only imitate real ones: labelled pairs are better evidence.",
    ]


def _curve(tuned: Tuned) -> Block:
    head = ("", "profile", "distance", "verify_at", "recall", "precision", "likely ≥", "F1")
    rows = [
        (
            _MARK if point == tuned.recommended else "",
            point.profile,
            str(point.distance),
            "-" if point.verify_at is None else f"{point.verify_at:g}",
            percent(point.recall),
            percent(point.precision),
            percent(point.precision_low),
            percent(point.f1),
        )
        for point in sorted(
            tuned.curve, key=lambda each: (each.profile, each.verify_at or 0.0, each.distance)
        )
    ]
    return table([head, *rows], "<<>>>>>>")
