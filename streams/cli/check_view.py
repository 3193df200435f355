"""What the index says of a text, for people."""

from __future__ import annotations

from streams.cli.fingerprint_view import hex_lines
from streams.exit_codes import ExitCode
from streams.ops_page.check_answer import CheckAnswer, NearDocument, Position
from streams.terminal.layout import Block, table
from streams.terminal.terminal_text import one_line

_ID_CELLS = 28
_SOURCE_CELLS = 32
_DUPLICATES = frozenset({"near_duplicate", "exact_duplicate"})


def check_view(answer: CheckAnswer) -> list[Block]:
    """Return an answer as lines and a table."""
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
    """Return the code of ``--exit-code``."""
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
