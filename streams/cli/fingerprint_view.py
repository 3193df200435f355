"""A fingerprint for people, and as an object for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.text.fingerprinter import Fingerprinted, Fingerprinter, WeightedTerm
from streams.terminal.layout import Block, table
from streams.terminal.terminal_text import one_line

TERM_CELLS: Final = 24
"""Most cells of a term in a table: the rest of an 80-column line is for the figures."""
_HEX_A_LINE: Final = 64


def scheme_in_words(scheme: BlockScheme) -> str:
    """``256 bits, 16 blocks of 16, near up to 48 bits``."""
    cuts = [f"{scheme.all_blocks} blocks of {scheme.block_bits}"] if scheme.blocks else []
    cuts += [f"{scheme.bands} bands"] if scheme.bands else []
    return f"{scheme.bits} bits, {', '.join(cuts)}, near up to {scheme.distance} bits"


def undecidable_lines(fingerprinted: Fingerprinted, min_features: int) -> list[str]:
    """Return in two lines why a text has no fingerprint, and what that means."""
    return [
        f"none: undecidable ({fingerprinted.undecidable})",
        f"{fingerprinted.features} of {min_features} features needed: only exact repeats are found",
    ]


def hex_lines(fingerprint: bytes) -> list[str]:
    """Return a fingerprint in hexadecimal, 256 bits a line."""
    digits = fingerprint.hex()
    return [digits[i : i + _HEX_A_LINE] for i in range(0, len(digits), _HEX_A_LINE)]


def block_hex(value: int, scheme: BlockScheme) -> str:
    """Return the value of a block in hexadecimal, as wide as a block is."""
    return f"{value:0{(scheme.block_bits + 3) // 4}x}"


def fingerprint_view(
    fingerprinter: Fingerprinter,
    profile: str,
    fingerprinted: Fingerprinted,
    terms: Sequence[WeightedTerm],
    terms_max: int,
) -> list[Block]:
    """Return a fingerprint with its blocks and heaviest terms."""
    scheme = fingerprinter.scheme
    total = sum(term.weight for term in terms)
    first, *more = (
        hex_lines(fingerprinted.fingerprint)
        if fingerprinted.fingerprint
        else undecidable_lines(fingerprinted, fingerprinter.profile.min_features)
    )
    lines: list[Block] = [f"fingerprint  {first}", *(" " * 13 + line for line in more)]
    lines += [
        f"profile      {profile}: {scheme_in_words(scheme)}",
        f"features     {fingerprinted.features}",
        f"content      {fingerprinted.content_digest.hex()}",
    ]
    if fingerprinted.fingerprint and scheme.blocks:
        rows = [
            (str(index), block_hex(value, scheme), f"{value:0{scheme.block_bits}b}")
            for index, value in enumerate(scheme.values(fingerprinted.fingerprint))
        ]
        lines += ["", table([("block", "value", "bits"), *rows], "><<")]
    if terms and terms_max:
        weighed = [
            (one_line(term, TERM_CELLS), f"{weight:.2f}", f"{weight / total:.1%}")
            for term, weight in terms[:terms_max]
        ]
        lines += ["", table([("term", "weight", "share"), *weighed], "<>>")]
        if len(terms) > terms_max:
            lines.append(f"and {len(terms) - terms_max:,} more (--top)")
    return lines


def fingerprint_object(
    fingerprinter: Fingerprinter, fingerprinted: Fingerprinted
) -> dict[str, object]:
    """Return a fingerprint as an object for JSON."""
    scheme = fingerprinter.scheme
    blocks = scheme.values(fingerprinted.fingerprint) if fingerprinted.fingerprint else []
    return {
        "fingerprint": fingerprinted.fingerprint.hex() or None,
        "bits": scheme.bits,
        "undecidable": fingerprinted.undecidable,
        "features": fingerprinted.features,
        "content_digest": fingerprinted.content_digest.hex(),
        "blocks": [
            {"index": index, "value": block_hex(value, scheme)}
            for index, value in enumerate(blocks)
        ],
    }
