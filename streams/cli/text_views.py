"""Fingerprints, answers and explanations of texts, as text and as JSON objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.text.fingerprinter import Fingerprinted, Fingerprinter, WeightedTerm
from simhash_core.text.profiles import index_digest
from simhash_core.verdicts import DuplicateOf, Method, Undecidable
from streams.errors import ExitCode
from streams.offline.explanation import Explanation
from streams.ops_page.text_check import CheckAnswer, NearDocument, Position
from streams.terminal.layout import Block, counted, one_line, table

TERM_CELLS: Final = 24  # maximum width of a term; leaves room for the figures in 80 columns
_HEX_A_LINE: Final = 64


def scheme_in_words(scheme: BlockScheme) -> str:
    """Return, for example, ``256 bits, 16 blocks of 16, near up to 48 bits``."""
    cuts = [f"{scheme.all_blocks} blocks of {scheme.block_bits}"] if scheme.blocks else []
    cuts += [f"{scheme.bands} bands"] if scheme.bands else []
    return f"{scheme.bits} bits, {', '.join(cuts)}, near up to {scheme.distance} bits"


def undecidable_lines(fingerprinted: Fingerprinted, min_features: int) -> list[str]:
    return [
        f"none: undecidable ({fingerprinted.undecidable})",
        f"{fingerprinted.features} of {min_features} features needed: only exact repeats are found",
    ]


def hex_lines(fingerprint: bytes) -> list[str]:
    digits = fingerprint.hex()
    return [digits[i : i + _HEX_A_LINE] for i in range(0, len(digits), _HEX_A_LINE)]


def block_hex(value: int, scheme: BlockScheme) -> str:
    return f"{value:0{(scheme.block_bits + 3) // 4}x}"


def fingerprint_view(
    fingerprinter: Fingerprinter,
    profile: str,
    fingerprinted: Fingerprinted,
    terms: Sequence[WeightedTerm],
    terms_max: int,
) -> list[Block]:
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


# ---- Answers of a worker about a text.

_ID_CELLS = 28
_SOURCE_CELLS = 32
_DUPLICATES = frozenset({"near_duplicate", "exact_duplicate"})


def check_view(answer: CheckAnswer) -> list[Block]:
    none = f"none: undecidable ({answer.undecidable})"
    first, *more = hex_lines(bytes.fromhex(answer.fingerprint)) if answer.fingerprint else [none]
    lines: list[Block] = [
        f"verdict      {_verdict_line(answer)}",
        f"fingerprint  {first}",
        *(" " * 13 + line for line in more),
        f"features     {answer.features}",
        f"candidates   {answer.candidates:,}, {answer.fullest_bucket:,} in the fullest bucket",
    ]
    if answer.nearest:
        head = ("document", "near", "bits", "agreement", "block", "source position")
        rows = [_row(each) for each in answer.nearest]
        lines += ["", table([head, *rows], "<<>>><")]
    return lines


def exit_code_of_answer(answer: CheckAnswer) -> ExitCode:
    return ExitCode.DUPLICATE if answer.verdict in _DUPLICATES else ExitCode.OK


def _verdict_line(answer: CheckAnswer) -> str:
    verdict = answer.verdict.replace("_", " ")
    original = answer.original
    if original is None:
        return verdict
    return f"{verdict} of {one_line(original.id, _ID_CELLS)} ({_position(original.source)})"


def _row(each: NearDocument) -> tuple[str, ...]:
    return (
        one_line(each.id, _ID_CELLS),
        "yes" if each.near else "no",
        str(each.distance),
        "-" if each.agreement is None else f"{each.agreement:.3f}",
        "-" if each.block is None else str(each.block),
        one_line(_position(each.source), _SOURCE_CELLS),
    )


def _position(source: Position) -> str:
    return f"{source.topic}/{source.partition}@{source.offset}"


# ---- Explanation of two texts.

CLOSE_CALL: Final = 0.02
"""A margin below this share of the weights: a small edit would flip the bit."""

_NAME_CELLS: Final = 60
_CERTAIN: Final = 0.9995
_REST_BITS_A_LINE: Final = 64


def explanation_view(
    explained: Explanation, fingerprinter: Fingerprinter, names: tuple[str, str], limit: int
) -> list[Block]:
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
    """Return an explanation for JSON; ``limit`` applies only to the terms."""
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
    lines: list[Block] = [
        f"verdict   {verdict_in_words(explained)}",
        f"profile   {scheme_in_words(scheme)}",
    ]
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
    rest = marks[scheme.blocks * scheme.block_bits :]  # bits in no block
    lines = range(0, len(rest), _REST_BITS_A_LINE)
    return [*drawn_blocks, *(f" rest  {rest[i : i + _REST_BITS_A_LINE]}" for i in lines)]


def _marks(a: bytes, b: bytes, bits: int) -> str:
    differing = int.from_bytes(a, "big") ^ int.from_bytes(b, "big")
    return f"{differing:0{bits}b}".translate({ord("0"): "·", ord("1"): "x"})


def _bits(explained: Explanation, limit: int) -> list[Block]:
    """List the differing bits, those with the largest margins first."""
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
