"""The metrics as people read them: the table of docs/operations.md.

``python docs/metrics_table.py docs/operations.md`` writes it there; a test holds
the page to it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from streams.monitoring.metrics import DEFINITIONS, MetricDefinition
from streams.settings.reference import between_marks

BEGIN: Final = "<!-- begin: python docs/metrics_table.py -->"
END: Final = "<!-- end: metrics -->"


def with_table(page: str) -> str:
    """Return a page of documentation with the present table between its two marks.

    Raises ``ValueError`` for a page without the marks.
    """
    return between_marks(page, BEGIN, END, markdown_table())


def markdown_table() -> str:
    """Return every metric with its type, its labels, and what it is for, in Markdown."""
    lines = ["| Metric | Type | Labels | Meaning |", "| --- | --- | --- | --- |"]
    lines += [
        f"| `{each.name}` | {each.kind} | {_labels(each)} | {each.help} {each.answers} |"
        for each in DEFINITIONS
    ]
    return "\n".join(lines)


def _labels(definition: MetricDefinition) -> str:
    return "; ".join(
        f"`{label}`: {', '.join(values)}" if values else f"`{label}`"
        for label, values in definition.labels.items()
    )


def main(arguments: Sequence[str]) -> int:
    """Write the table into the page that is named, or to standard output."""
    if not arguments:
        sys.stdout.write(f"{markdown_table()}\n")
        return 0
    page = Path(arguments[0])
    page.write_text(with_table(page.read_text("utf-8")), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
