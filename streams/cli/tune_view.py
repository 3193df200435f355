"""What ``firstseen tune`` shows people: the curve, the choice, and how sure it is."""

from __future__ import annotations

from typing import Final

from streams.cli.evaluate_view import percent
from streams.offline.evaluation.injected_sample import InjectedSample
from streams.offline.evaluation.tuning import Tuned, TunedPoint
from streams.terminal.layout import Block, table

_MARK: Final = "*"


def tuned_view(tuned: Tuned, sample: InjectedSample | None) -> list[Block]:
    """Return the outcome; ``sample`` where it was made of edits."""
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
    if not tuned.enough:
        lines.append(
            f"The sample is too small: {point.joined_pairs:,} joined pairs show only that a "
            f"precision of {percent(point.precision_low)} or more is likely. To show {wanted}, at "
            f"least {tuned.pairs_needed:,} joined pairs must all be right."
        )
    else:
        lines.append(
            f"A precision of {percent(point.precision_low)} or more is likely "
            f"({point.joined_pairs:,} joined pairs)."
        )
    return lines


def settings_lines(point: TunedPoint) -> list[str]:
    """Return a point as lines of a settings file."""
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
