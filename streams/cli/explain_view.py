"""An explanation of two texts for people, and as an object for programs."""

from __future__ import annotations

from typing import Final

from simhash_core.index_digest import index_digest
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.verdicts import DuplicateOf, Method, Undecidable
from streams.cli.fingerprint_view import (
    TERM_CELLS,
    block_hex,
    fingerprint_object,
    hex_lines,
    scheme_in_words,
    undecidable_lines,
)
from streams.offline.explanation import Explanation
from streams.terminal.layout import Block, table
from streams.terminal.terminal_text import counted, one_line

CLOSE_CALL: Final = 0.02
"""A margin below this share of all weights: a few terms more or less would flip the bit."""

_NAME_CELLS: Final = 60
_CERTAIN: Final = 0.9995
_REST_BITS_A_LINE: Final = 64


def explanation_view(
    explained: Explanation, fingerprinter: Fingerprinter, names: tuple[str, str], limit: int
) -> list[Block]:
    """Return an explanation in sections; ``limit`` bounds each list."""
    sections: list[list[Block]] = [
        _texts(explained, fingerprinter, names),
        _outcome(explained, fingerprinter),
        _blocks(explained),
        _bits(explained, limit),
        _terms(explained, limit),
    ]
    blocks = [block for lines in sections if lines for block in ("", *lines)]
    return blocks[1:]


def verdict_in_words(explained: Explanation) -> str:
    """Return what B is where A was seen before, and why."""
    threshold = explained.scheme.distance
    match explained.verdict:
        case DuplicateOf(method=Method.EXACT):
            return "B repeats A exactly: the texts are equal after normalisation"
        case DuplicateOf(distance=distance):
            return (
                f"B is a near duplicate of A: {_bits_of(distance)} apart, up to {threshold} is near"
            )
        case Undecidable(reason):
            return f"B is put out: undecidable ({reason}), no exact repeat of A"
    if explained.distance is None:
        return "B is unique: A has no fingerprint to be near to"
    if explained.distance > threshold:
        return f"B is unique: {_bits_of(explained.distance)} apart, up to {threshold} is near"
    why = "the texts do not agree" if explained.shared_buckets else "they share no bucket"
    return f"B is unique: {why}, though {_bits_of(explained.distance)} apart could be near"


def explanation_object(
    explained: Explanation, fingerprinter: Fingerprinter, names: tuple[str, str], limit: int
) -> dict[str, object]:
    """Return an explanation as an object for JSON; ``limit`` bounds the list of terms alone."""
    verdict = explained.verdict
    return {
        "a": {"name": names[0], **fingerprint_object(fingerprinter, explained.a)},
        "b": {"name": names[1], **fingerprint_object(fingerprinter, explained.b)},
        "distance": explained.distance,
        "threshold": explained.scheme.distance,
        "near": explained.distance is not None and explained.distance <= explained.scheme.distance,
        "agreement": None if explained.agreement is None else round(explained.agreement, 6),
        "meet": bool(explained.shared_buckets),
        "shared_blocks": _shared(explained)[0],
        "shared_bands": _shared(explained)[1],
        "verdict": type(verdict).__name__,
        "method": verdict.method if isinstance(verdict, DuplicateOf) else None,
        "verdict_in_words": verdict_in_words(explained),
        "cosine": round(explained.cosine, 6),
        "expected_distance": round(explained.expected_distance, 2),
        "differing_bits": [
            {
                "bit": bit.bit,
                "block": bit.block,
                "margin_a": round(bit.margin_a, 6),
                "margin_b": round(bit.margin_b, 6),
            }
            for bit in explained.differing
        ],
        "terms": [
            {**term._asdict(), "share": round(term.share, 6)} for term in explained.terms[:limit]
        ],
        "index": index_digest(fingerprinter.identity),
    }


def _shared(explained: Explanation) -> tuple[list[int], list[int]]:
    """Return the numbers of the blocks and of the bands that are equal."""
    blocks = explained.scheme.all_blocks
    shared = explained.shared_buckets
    return [each for each in shared if each < blocks], [
        each - blocks for each in shared if each >= blocks
    ]


def _texts(
    explained: Explanation, fingerprinter: Fingerprinter, names: tuple[str, str]
) -> list[Block]:
    lines: list[Block] = []
    for letter, name, fingerprinted in zip("AB", names, (explained.a, explained.b), strict=True):
        lines.append(f"{letter}  {one_line(name, _NAME_CELLS)}: {fingerprinted.features} features")
        shown = (
            hex_lines(fingerprinted.fingerprint)
            if fingerprinted.fingerprint
            else undecidable_lines(fingerprinted, fingerprinter.profile.min_features)
        )
        lines += ["   " + line for line in shown]
    return lines


def _outcome(explained: Explanation, fingerprinter: Fingerprinter) -> list[Block]:
    scheme = explained.scheme
    lines: list[Block] = [f"verdict   {line}" for line in [verdict_in_words(explained)]]
    lines.append(f"profile   {scheme_in_words(scheme)}")
    if explained.distance is None:
        return lines
    compared = bool(explained.shared_buckets)
    effect = "so they are compared" if compared else "so they are never compared"
    for what, shared, of in zip(
        ("blocks", "bands"), _shared(explained), (scheme.all_blocks, scheme.bands), strict=True
    ):
        if of:
            equal = f"{len(shared)} of {of} equal" if shared else "none equal"
            lines.append(f"{what:<9} {equal}" + (f", {effect}" if shared or not compared else ""))
    lines.append(f"distance  {_bits_of(explained.distance)} of {scheme.bits} differ")
    if explained.agreement is not None:
        profile = fingerprinter.profile
        lines.append(
            f"agreement {explained.agreement:.3f} by {profile.verify}, "
            f"from {profile.verify_at:g} on is near"
        )
    recall = scheme.expected_recall(explained.distance)
    if recall < _CERTAIN and not scheme.bands and explained.distance <= scheme.distance:
        lines.append(f"          pairs at this distance are compared with a chance of {recall:.1%}")
    if explained.terms:
        lines.append(
            f"angle     cosine {explained.cosine:.3f} of the weighted features: "
            f"{explained.expected_distance:.0f} bits on average"
        )
    return lines


def _blocks(explained: Explanation) -> list[Block]:
    """Draw the fingerprints block by block, an x for each differing bit."""
    a, b, scheme = explained.a.fingerprint, explained.b.fingerprint, explained.scheme
    if explained.distance is None:
        return []
    marks = _marks(a, b, scheme.bits)
    rows = []
    for index, (left, right) in enumerate(zip(scheme.values(a), scheme.values(b), strict=True)):
        drawn = "".join(marks[bit] for bit in scheme.bits_of(index))
        outcome = "equal" if left == right else str(drawn.count("x"))
        rows.append((str(index), block_hex(left, scheme), block_hex(right, scheme), drawn, outcome))
    heads = ("block", "A", "B", "x: bits that differ", "")
    drawn_blocks = [table([heads, *rows], "><<<>")] if rows else ["x: bits that differ"]
    return [*drawn_blocks, *_rest(marks[scheme.blocks * scheme.block_bits :])]


def _rest(marks: str) -> list[str]:
    """Draw the bits that no block covers."""
    return [
        f" rest  {marks[i : i + _REST_BITS_A_LINE]}"
        for i in range(0, len(marks), _REST_BITS_A_LINE)
    ]


def _marks(a: bytes, b: bytes, bits: int) -> str:
    differing = int.from_bytes(a, "big") ^ int.from_bytes(b, "big")
    return f"{differing:0{bits}b}".translate({ord("0"): "·", ord("1"): "x"})


def _bits(explained: Explanation, limit: int) -> list[Block]:
    """List the differing bits, surest first, with how sure each text was of its own."""
    differing = explained.differing
    if not differing or not limit:
        return []
    close = sum(max(abs(bit.margin_a), abs(bit.margin_b)) < CLOSE_CALL for bit in differing)
    rows = [
        (
            str(bit.bit),
            "-" if bit.block is None else str(bit.block),
            f"{bit.margin_a:+.2%}",
            f"{bit.margin_b:+.2%}",
        )
        for bit in differing[:limit]
    ]
    return [
        (
            "Bits that differ, the widest apart first. Margin: votes for 1 less votes for 0, "
            f"of all weight; {close} of {len(differing)} were within {CLOSE_CALL:.0%} in both."
        ),
        table([("bit", "block", "margin A", "margin B"), *rows], ">>>>", "  "),
        *_left_out(len(differing), limit),
    ]


def _terms(explained: Explanation, limit: int) -> list[Block]:
    """List the features that pull the texts apart."""
    terms = [term for term in explained.terms if term.share > 0]
    if explained.distance is None or not terms or not limit:
        return []
    rows = [
        (
            one_line(term.term, TERM_CELLS),
            _weight(term.weight_a),
            _weight(term.weight_b),
            f"{term.share:.1%}",
        )
        for term in terms[:limit]
    ]
    return [
        "Features that weigh most in the difference (lengths of the texts evened out).",
        table([("term", "weight in A", "in B", "share"), *rows], "<>>>", "  "),
        *_left_out(len(terms), limit),
    ]


def _left_out(total: int, limit: int) -> list[str]:
    return [f"  and {total - limit:,} more (--top)"] if total > limit else []


def _weight(weight: float) -> str:
    return f"{weight:.2f}" if weight else "-"


def _bits_of(count: int) -> str:
    return counted(count, "bit")
