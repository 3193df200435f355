"""``firstseen compare``: set two texts side by side by three measures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from simhash_core.errors import UsageError
from streams.cli import options

if TYPE_CHECKING:
    from streams.offline.explanation import Comparison
    from streams.terminal.layout import Block


@click.command(cls=options.ProfileCommand, short_help="Compare two texts by three measures.")
@click.argument("a")
@click.argument("b")
@options.json_option
@options.with_profile_settings
def command(settings: options.Settings, *, a: str, b: str, as_json: bool) -> None:
    """Compare the texts in files A and B: SimHash of 64 and of 128 bits, and cosine of the words.

    A and B are UTF-8 (gzip if they end in .gz; - is standard input, for one of them). The profile
    sets segmenter, weighting and feature hash. The cosine (VSM) uses plain term frequencies.
    'firstseen explain' shows what an index decides about the two texts.

    \b
    Examples:
      firstseen compare original.txt copy.txt
      firstseen compare a.txt b.txt --weighting tf --json
    """  # noqa: D301 - \b is click's mark for "leave the lines as they are"
    from streams.files.text_files import read_text
    from streams.offline.explanation import compare

    if a == b == "-":
        raise UsageError("A and B cannot both be standard input: name a file for one")
    texts = [read_text(name, settings.max_record_bytes) for name in (a, b)]
    compared = compare(settings.index_profile(), *texts)
    options.write_blocks("compare", compared, _view(compared, a, b), as_json=as_json)


def _view(compared: Comparison, a: str, b: str) -> list[Block]:
    from streams.terminal.layout import table

    rows = [("measure", "distance", "similarity", "cosine")]
    for each in compared.simhash:
        known = (each.distance, each.similarity, each.cosine)
        distance, similarity, cosine = (
            "-" if value is None else f"{value:{form}}"
            for value, form in zip(known, ("d", ".4f", ".4f"), strict=True)
        )
        rows.append((f"SimHash, {each.bits} bits", distance, similarity, cosine))
    rows.append(("VSM, term frequencies", "", "", f"{compared.vsm_cosine:.4f}"))
    lines: list[Block] = [
        f"A  {a}: {compared.features_a:,} features",
        f"B  {b}: {compared.features_b:,} features",
        "",
        table(rows, "<>>>"),
        "",
        (
            f"SimHash of {compared.weighting} weights ({compared.segmenter}); its cosine is the "
            "one that two texts at this distance are expected to have."
        ),
    ]
    if not (compared.features_a and compared.features_b):
        lines.append("A text without a word has no fingerprint.")
    return lines
