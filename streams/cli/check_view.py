"""What workers say of a text, for people."""

from __future__ import annotations

from streams.cli.columns import table
from streams.cli.fingerprint_view import hex_lines
from streams.exit_codes import ExitCode
from streams.ops_page.check_answer import PENDING, CheckAnswer, NearDocument, Place
from streams.terminal_text import one_line

_ID_CELLS = 28
_SOURCE_CELLS = 32
_DUPLICATES = frozenset({"near_duplicate", "exact_duplicate"})


def check_text(answer: CheckAnswer) -> str:
    """Return an answer as lines."""
    none = f"none: undecidable ({answer.undecidable})"
    first, *more = hex_lines(bytes.fromhex(answer.fingerprint)) if answer.fingerprint else [none]
    candidates = sum(each.candidates for each in answer.looked_at)
    lines = [
        f"verdict      {_verdict_line(answer)}",
        f"fingerprint  {first}",
        *(" " * 13 + line for line in more),
        f"features     {answer.features}",
        f"candidates   {candidates:,}",
        f"shards       looked at {_looked_at(answer)}, of {answer.shards}",
        *(f"             not at {each.shard}: {each.why}" for each in answer.not_looked_at),
    ]
    lines += [
        f"             at {each.shard} it would wait behind {each.behind}"
        for each in answer.looked_at
        if each.behind is not None
    ]
    if answer.nearest:
        head = ("document", "near", "bits", "agreement", "block", "source position")
        rows = [_row(each) for each in answer.nearest]
        lines += ["", *table([head, *rows], "<<>>><")]
    return "\n".join(lines)


def exit_code_of_answer(answer: CheckAnswer) -> ExitCode:
    """Return the code of ``--exit-code``; a duplicate is one even where not all was looked at."""
    if answer.verdict in _DUPLICATES:
        return ExitCode.DUPLICATE
    return ExitCode.OK if answer.complete else ExitCode.NOT_SURE


def _verdict_line(answer: CheckAnswer) -> str:
    said = answer.verdict.replace("_", " ")
    original = answer.original
    if original is not None:
        said += f" of {one_line(original.id, _ID_CELLS)} ({_position(original.source)})"
    if answer.verdict == PENDING:
        return f"{said}: a near document is itself still under way"
    return said if answer.complete else f"{said}, as far as was looked"


def _row(each: NearDocument) -> tuple[str, ...]:
    return (
        one_line(each.id, _ID_CELLS),
        "yes" if each.near else "no",
        str(each.distance),
        "-" if each.agreement is None else f"{each.agreement:.3f}",
        "-" if each.block is None else str(each.block),
        one_line(_position(each.source), _SOURCE_CELLS),
    )


def _position(source: Place) -> str:
    return f"{source.topic}/{source.partition}@{source.offset}"


def _looked_at(answer: CheckAnswer) -> str:
    return ", ".join(str(each.shard) for each in answer.looked_at) or "none"
