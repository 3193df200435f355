"""``firstseen compare``, ``explain``, ``fingerprint``: show and compare fingerprints of texts."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Final

import click

from simhash_core.errors import UsageError
from streams.cli import options
from streams.terminal.layout import Block, counted, hex_lines, one_line, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simhash_core.documents import Document
    from simhash_core.fingerprints.blocks import BlockScheme
    from simhash_core.text.fingerprinter import Fingerprinted, Fingerprinter, WeightedTerm
    from streams.offline.explanation import Comparison, Explanation

CLOSE_CALL: Final = 0.02
"""If a margin is below this share of the weights, a small edit would flip the bit."""

_TERM_CELLS: Final = 24  # leaves room for the figures in 80 columns
_NAME_CELLS: Final = 60
_CERTAIN: Final = 0.9995
_REST_BITS_A_LINE: Final = 64


@click.command(cls=options.ProfileCommand)
@click.argument("a")
@click.argument("b")
@options.with_profile_settings
def compare(settings: options.Settings, *, a: str, b: str) -> None:
    """Compare the texts in files A and B: SimHash of 64 and of 128 bits, and cosine of the words.

    A and B are UTF-8 (gzip if they end in .gz; - is standard input, for one of them). The profile
    sets segmenter, weighting and feature hash. The cosine (VSM) uses plain term frequencies.
    'firstseen explain' shows the verdict of an index on the two texts.

    \b
    Examples:
      firstseen compare original.txt copy.txt
      firstseen compare a.txt b.txt --weighting tf --json
    """
    from streams.files.text_files import read_text
    from streams.offline.explanation import compare

    if a == b == "-":
        raise UsageError("A and B cannot both be standard input: name a file for one")
    texts = [read_text(name, settings.max_record_bytes) for name in (a, b)]
    compared = compare(settings.index_profile(), *texts)
    options.write_answer("compare", compared, _comparison_view(compared, a, b))


def _comparison_view(compared: Comparison, a: str, b: str) -> list[Block]:
    def shown(value: float | None) -> str:
        return "-" if value is None else f"{value:d}" if isinstance(value, int) else f"{value:.4f}"

    rows = [
        ("measure", "distance", "similarity", "cosine"),
        *(
            (
                f"SimHash, {each.bits} bits",
                *map(shown, (each.distance, each.similarity, each.cosine)),
            )
            for each in compared.simhash
        ),
        ("VSM, term frequencies", "", "", shown(compared.vsm_cosine)),
    ]
    lines: list[Block] = [
        f"A  {a}: {compared.features_a:,} features",
        f"B  {b}: {compared.features_b:,} features",
        "",
        table(rows, "<>>>"),
        "",
        (
            f"SimHash of {compared.weighting} weights ({compared.segmenter}); its cosine is the "
            "expected value for two texts at this distance."
        ),
    ]
    if not (compared.features_a and compared.features_b):
        lines.append("A text without words has no fingerprint.")
    return lines


@click.command()
@click.argument("file", metavar="[FILE]", required=False)
@click.option("--text", metavar="TEXT", help="Use this text instead of a file.")
@click.option(
    "--jsonl", is_flag=True, help="FILE has one JSON document per line; print one line for each."
)
@options.top_option("Number of heaviest terms to show.")
@options.json_option
@options.with_local_settings
def fingerprint(
    settings: options.Settings, *, file: str | None, text: str | None, jsonl: bool, top: int
) -> None:
    """Show the fingerprint of the text in FILE (- is standard input), its blocks, and its terms.

    FILE is the text itself, UTF-8. With --jsonl it has one JSON document a line, and the command
    writes one line for each: id, fingerprint and number of features, separated by tabs; or - and
    the reason, if a text has no fingerprint.

    \b
    Examples:
      firstseen fingerprint article.txt
      firstseen fingerprint --text '北京今天下雪了，地铁照常运行。' --set index.min_features=3
      firstseen fingerprint --jsonl news.jsonl.gz --profile classic
      firstseen fingerprint article.txt --json | jq -r .fingerprint
    """
    from simhash_core.text.fingerprinter import Fingerprinter
    from simhash_core.text.profiles import index_digest

    if jsonl and file is None and text is not None:
        raise UsageError("--jsonl needs a FILE of documents: name one, or remove --jsonl")
    fingerprinter = Fingerprinter(settings.index_profile())
    if jsonl and file is not None and text is None:
        _show_documents(file, settings, fingerprinter)
        return
    text = options.given_text(file, text, settings)
    fingerprinted = fingerprinter.fingerprint(text)
    terms = fingerprinter.weighted_terms(text)
    content = {
        **_fingerprint_object(fingerprinter, fingerprinted),
        "terms": [term._asdict() for term in terms[:top]],
        "profile": settings.profile,
        "index": index_digest(fingerprinter.identity),
    }
    view = _fingerprint_view(fingerprinter, settings.profile, fingerprinted, terms, top)
    options.write_answer("fingerprint", content, view)


def _show_documents(file: str, settings: options.Settings, fingerprinter: Fingerprinter) -> None:
    from streams.files.text_files import Refused, documents_in

    for line, item in documents_in(file, settings):
        if isinstance(item, Refused):
            options.announce(f"line {line.number + 1}: {item.reason}: {item.detail}")
            continue
        fingerprinted = fingerprinter.fingerprint(item.content)
        if options.is_json():
            shown = {"id": item.id, **_fingerprint_object(fingerprinter, fingerprinted)}
            options.write_json("fingerprint", shown)
        else:
            last = fingerprinted.undecidable or str(fingerprinted.features)
            click.echo(f"{one_line(item.id)}\t{fingerprinted.fingerprint.hex() or '-'}\t{last}")


def _fingerprint_view(
    fingerprinter: Fingerprinter,
    profile: str,
    fingerprinted: Fingerprinted,
    terms: Sequence[WeightedTerm],
    terms_max: int,
) -> list[Block]:
    scheme = fingerprinter.scheme
    first, *more = _fingerprint_lines(fingerprinter, fingerprinted)
    lines: list[Block] = [
        f"fingerprint  {first}",
        *(" " * 13 + line for line in more),
        f"profile      {profile}: {_scheme_in_words(scheme)}",
        f"features     {fingerprinted.features}",
        f"content      {fingerprinted.content_digest.hex()}",
    ]
    if fingerprinted.fingerprint and scheme.blocks:
        rows = [
            (str(index), _block_hex(value, scheme), f"{value:0{scheme.block_bits}b}")
            for index, value in enumerate(scheme.values(fingerprinted.fingerprint))
        ]
        lines += ["", table([("block", "value", "bits"), *rows], "><<")]
    if terms and terms_max:
        total = sum(term.weight for term in terms)
        weighed = [
            (one_line(term, _TERM_CELLS), f"{weight:.2f}", f"{weight / total:.1%}")
            for term, weight in terms[:terms_max]
        ]
        lines += ["", table([("term", "weight", "share"), *weighed], "<>>")]
        if len(terms) > terms_max:
            lines.append(f"and {len(terms) - terms_max:,} more (--top)")
    return lines


def _fingerprint_object(
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
            {"index": index, "value": _block_hex(value, scheme)}
            for index, value in enumerate(blocks)
        ],
    }


def _fingerprint_lines(fingerprinter: Fingerprinter, fingerprinted: Fingerprinted) -> list[str]:
    if fingerprinted.fingerprint:
        return hex_lines(fingerprinted.fingerprint)
    needed = f"{fingerprinted.features} of {fingerprinter.profile.min_features} features needed"
    return [
        f"none: undecidable ({fingerprinted.undecidable})",
        f"{needed}: only exact repeats are found",
    ]


def _scheme_in_words(scheme: BlockScheme) -> str:
    """Return, for example, ``256 bits, 16 blocks of 16, near up to 48 bits``."""
    cuts = [f"{scheme.all_blocks} blocks of {scheme.block_bits}"] if scheme.blocks else []
    cuts += [f"{scheme.bands} bands"] if scheme.bands else []
    return f"{scheme.bits} bits, {', '.join(cuts)}, near up to {scheme.distance} bits"


def _block_hex(value: int, scheme: BlockScheme) -> str:
    return f"{value:0{(scheme.block_bits + 3) // 4}x}"


@click.command()
@click.argument("texts", metavar="[A] [B]", nargs=-1)
@click.option("--text-a", metavar="TEXT", help="Use this text as A instead of a file.")
@click.option("--text-b", metavar="TEXT", help="Use this text as B instead of a file.")
@click.option(
    "--documents",
    multiple=True,
    metavar="FILE",
    help="A and B are ids of documents in FILE, with one JSON object per line; repeatable.",
)
@options.top_option("Number of features and bits to list.")
@options.json_option
@options.with_local_settings
def explain(
    settings: options.Settings,
    texts: tuple[str, ...],
    *,
    text_a: str | None,
    text_b: str | None,
    documents: tuple[str, ...],
    top: int,
) -> None:
    """Show why text B is, or is not, a near duplicate of text A.

    A and B are files of text, UTF-8 (- is standard input, for one of them); with --documents they
    are ids, and scopes and times count too. Shows both fingerprints, the bits that differ, the
    blocks that are equal, the verdict on B if A came first, how close each differing bit was, and
    the features that contribute most to the difference.

    \b
    Examples:
      firstseen explain original.txt copy.txt
      firstseen explain --profile classic --text-a "$(pbpaste)" page.txt
      firstseen explain --documents news.jsonl.gz id-17 id-42
      firstseen explain a.txt b.txt --json | jq .distance
    """
    from simhash_core.text.fingerprinter import Fingerprinter
    from streams.offline.explanation import explain

    (a, text_of_a), (b, text_of_b) = _named_texts(texts, (text_a, text_b), documents, settings)
    fingerprinter = Fingerprinter(settings.index_profile())
    explained = explain(fingerprinter, text_of_a, text_of_b)
    content = _explanation_object(explained, fingerprinter, (a, b), top)
    options.write_answer(
        "explain", content, _explanation_view(explained, fingerprinter, (a, b), top)
    )


def _named_texts(
    names: tuple[str, ...],
    inline: tuple[str | None, str | None],
    documents: tuple[str, ...],
    settings: options.Settings,
) -> list[tuple[str, Document | str]]:
    """Return name and text or document of A and of B; raise ``UsageError`` unless there are two."""
    from streams.files.text_files import find_documents, read_text

    wanted = 2 - sum(text is not None for text in inline)
    if len(names) != wanted:
        raise UsageError(
            f"two texts are needed: give {wanted} {'id' if documents else 'file'}"
            f"{'' if wanted == 1 else 's'}, not {len(names)} (--help has examples)"
        )
    if names.count("-") > 1:
        raise UsageError("A and B cannot both be standard input: name a file for one")
    rest = iter(names)
    found = find_documents(documents, names, settings) if documents else {}
    pairs: list[tuple[str, Document | str]] = []
    for letter, text in zip("ab", inline, strict=True):
        if text is not None:
            option = f"--text-{letter}"
            pairs.append((option, options.utf8(option, text)))
            continue
        name = next(rest)
        read = found[name] if documents else read_text(name, settings.max_record_bytes)
        pairs.append((name, read))
    return pairs


def _verdict_in_words(explained: Explanation) -> str:
    from simhash_core.verdicts import DuplicateOf, Method, Undecidable

    limit = explained.scheme.distance
    apart = f"{counted(explained.distance or 0, 'bit')} apart"
    match explained.verdict:
        case DuplicateOf(method=Method.EXACT):
            return "B repeats A exactly: the texts are equal after normalisation"
        case DuplicateOf():
            return f"B is a near duplicate of A: {apart}, up to {limit} is near"
        case Undecidable(reason):
            why = explained.never_near or "no exact repeat of A"
            if explained.b.passes:
                why = "index.short_texts=pass passes every short text"
            return f"B is undecidable ({reason}), and {why}, so it goes to the unique documents"
    if explained.never_near is not None:
        return f"B is unique: {explained.never_near}"
    if explained.distance is None:
        why = "A has no fingerprint to compare with"
    elif explained.distance > limit:
        why = f"{apart}, up to {limit} is near"
    elif not explained.shared_buckets:
        why = f"they share no bucket, although {apart} is within the limit"
    else:
        agreement, needed = explained.agreement or 0, explained.agreement_minimum or 0
        why = (
            f"{apart} is within the limit, but the similarity is {agreement:.3f}, and "
            f"{needed:.3f} is required at this distance"
        )
    return f"B is unique: {why}"


def _explanation_object(
    explained: Explanation, fingerprinter: Fingerprinter, names: tuple[str, str], limit: int
) -> dict[str, object]:
    """Return an explanation for JSON; ``limit`` applies only to the terms."""
    from simhash_core.text.profiles import index_digest
    from simhash_core.verdicts import DuplicateOf
    from streams.files.document_files import encodable

    verdict = explained.verdict
    shared_blocks, shared_bands = _shared(explained)
    return {
        "a": {"name": encodable(names[0]), **_fingerprint_object(fingerprinter, explained.a)},
        "b": {"name": encodable(names[1]), **_fingerprint_object(fingerprinter, explained.b)},
        "distance": explained.distance,
        "threshold": explained.scheme.distance,
        "near": explained.distance is not None and explained.distance <= explained.scheme.distance,
        "agreement": _rounded(explained.agreement),
        "agreement_minimum": _rounded(explained.agreement_minimum),
        "meet": bool(explained.shared_buckets),
        "shared_blocks": shared_blocks,
        "shared_bands": shared_bands,
        "verdict": type(verdict).__name__,
        "method": verdict.method if isinstance(verdict, DuplicateOf) else None,
        "verdict_in_words": _verdict_in_words(explained),
        "cosine": round(explained.cosine, 6),
        "expected_distance": round(explained.expected_distance, 2),
        "differing_bits": [
            {
                **bit._asdict(),
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


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _shared(explained: Explanation) -> tuple[list[int], list[int]]:
    """Return the numbers of the shared blocks, and of the shared bands."""
    blocks, shared = explained.scheme.all_blocks, explained.shared_buckets
    return (
        [each for each in shared if each < blocks],
        [each - blocks for each in shared if each >= blocks],
    )


def _explanation_view(
    explained: Explanation, fingerprinter: Fingerprinter, names: tuple[str, str], limit: int
) -> list[Block]:
    sections = [_texts(explained, fingerprinter, names), _outcome(explained, fingerprinter)]
    if explained.distance is not None:
        sections += [_blocks(explained), _bits(explained, limit), _terms(explained, limit)]
    return [block for lines in sections if lines for block in ("", *lines)][1:]


def _texts(
    explained: Explanation, fingerprinter: Fingerprinter, names: tuple[str, str]
) -> list[Block]:
    lines: list[Block] = []
    for letter, name, fingerprinted in zip("AB", names, (explained.a, explained.b), strict=True):
        lines.append(f"{letter}  {one_line(name, _NAME_CELLS)}: {fingerprinted.features} features")
        lines += ["   " + line for line in _fingerprint_lines(fingerprinter, fingerprinted)]
    return lines


def _outcome(explained: Explanation, fingerprinter: Fingerprinter) -> list[Block]:
    scheme = explained.scheme
    lines: list[Block] = [
        f"verdict   {_verdict_in_words(explained)}",
        f"profile   {_scheme_in_words(scheme)}",
    ]
    if explained.distance is None:
        return lines
    compared = bool(explained.shared_buckets)
    effect = f"so they are {'compared' if compared else 'never compared'}"
    for what, shared, of in zip(
        ("blocks", "bands"), _shared(explained), (scheme.all_blocks, scheme.bands), strict=True
    ):
        if of:
            equal = f"{len(shared)} of {of} equal" if shared else "none equal"
            lines.append(f"{what:<9} {equal}" + (f", {effect}" if shared or not compared else ""))
    lines.append(f"distance  {counted(explained.distance, 'bit')} of {scheme.bits} differ")
    if explained.agreement is not None:
        profile = fingerprinter.profile
        at_this_distance = " at this distance" if profile.mean_at else ""
        lines.append(
            f"check     similarity {explained.agreement:.3f} by {profile.verify}, "
            f"from {explained.agreement_minimum or 0:.3g} on is near{at_this_distance}"
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
    differing = int.from_bytes(a, "big") ^ int.from_bytes(b, "big")
    marks = f"{differing:0{scheme.bits}b}".translate({ord("0"): "·", ord("1"): "x"})
    rows = []
    for index, (left, right) in enumerate(zip(scheme.values(a), scheme.values(b), strict=True)):
        drawn = "".join(marks[bit] for bit in scheme.bits_of(index))
        outcome = "equal" if left == right else str(drawn.count("x"))
        rows.append(
            (str(index), _block_hex(left, scheme), _block_hex(right, scheme), drawn, outcome)
        )
    heads = ("block", "A", "B", "x: bits that differ", "")
    drawn_blocks = [table([heads, *rows], "><<<>")] if rows else ["x: bits that differ"]
    rest = marks[scheme.blocks * scheme.block_bits :]  # bits in no block
    return [*drawn_blocks, *(f" rest  {part}" for part in wrap(rest, _REST_BITS_A_LINE))]


def _bits(explained: Explanation, limit: int) -> list[Block]:
    """List the differing bits, those with the largest margins first."""
    differing = explained.differing
    if not differing or not limit:
        return []
    close = sum(max(abs(bit.margin_a), abs(bit.margin_b)) < CLOSE_CALL for bit in differing)
    rows = [
        (str(bit), "-" if block is None else str(block), f"{in_a:+.2%}", f"{in_b:+.2%}")
        for bit, block, in_a, in_b in differing[:limit]
    ]
    return [
        (
            "Bits that differ, those with the largest margins first. Margin: votes for 1 minus "
            f"votes for 0, as a share of all weight; {close} of {len(differing)} were within "
            f"{CLOSE_CALL:.0%} in both."
        ),
        table([("bit", "block", "margin A", "margin B"), *rows], ">>>>", "  "),
        *_left_out(len(differing), limit),
    ]


def _terms(explained: Explanation, limit: int) -> list[Block]:
    terms = [term for term in explained.terms if term.share > 0]
    if not terms or not limit:
        return []
    rows = [
        (
            one_line(term.term, _TERM_CELLS),
            *(f"{weight:.2f}" if weight else "-" for weight in (term.weight_a, term.weight_b)),
            f"{term.share:.1%}",
        )
        for term in terms[:limit]
    ]
    return [
        "Features that contribute most to the difference (normalised by the lengths of the texts).",
        table([("term", "weight in A", "in B", "share"), *rows], "<>>>", "  "),
        *_left_out(len(terms), limit),
    ]


def _left_out(total: int, limit: int) -> list[str]:
    return [f"  and {total - limit:,} more (--top)"] if total > limit else []
