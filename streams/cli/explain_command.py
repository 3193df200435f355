"""``firstseen explain``: say why two texts are near duplicates, or are not."""

from __future__ import annotations

import click

from simhash_core.errors import UsageError
from streams.cli import options


@click.command(short_help="Show why two texts are, or are not, near duplicates.")
@click.argument("texts", metavar="[A] [B]", nargs=-1)
@click.option("--text-a", metavar="TEXT", help="This text is A, instead of a file.")
@click.option("--text-b", metavar="TEXT", help="This text is B, instead of a file.")
@click.option(
    "--documents",
    multiple=True,
    metavar="FILE",
    help="A and B are ids of documents in FILE, one JSON object a line; repeatable.",
)
@options.top_option("Features and bits to list.")
@options.json_option
@options.with_local_settings
def command(
    settings: options.Settings,
    texts: tuple[str, ...],
    *,
    text_a: str | None,
    text_b: str | None,
    documents: tuple[str, ...],
    top: int,
    as_json: bool,
) -> None:
    """Show why text B is, or is not, a near duplicate of text A.

    A and B are files of text, UTF-8 (- is standard input, for one of them); with --documents they
    are ids. Shows both fingerprints, the bits that differ, the blocks that are equal, the verdict
    on B if A came first, how close each differing bit was, and the features that contribute most to
    the difference.

    \b
    Examples:
      firstseen explain original.txt copy.txt
      firstseen explain --profile classic --text-a "$(pbpaste)" page.txt
      firstseen explain --documents news.jsonl.gz id-17 id-42
      firstseen explain a.txt b.txt --json | jq .distance
    """  # noqa: D301 - \b is click's mark for "leave the lines as they are"
    from simhash_core.text.fingerprinter import Fingerprinter
    from streams.cli.text_views import explanation_object, explanation_view
    from streams.offline.explanation import explain

    pairs = _named_texts(texts, (text_a, text_b), documents, settings)
    names = (pairs[0][0], pairs[1][0])
    fingerprinter = Fingerprinter(settings.index_profile())
    explained = explain(fingerprinter, pairs[0][1], pairs[1][1])
    content = explanation_object(explained, fingerprinter, names, top)
    blocks = explanation_view(explained, fingerprinter, names, top)
    options.write_blocks("explain", content, blocks, as_json=as_json)


def _named_texts(
    names: tuple[str, ...],
    inline: tuple[str | None, str | None],
    documents: tuple[str, ...],
    settings: options.Settings,
) -> list[tuple[str, str]]:
    """Return name and text of A and of B; raise ``UsageError`` unless there are two."""
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
    documents_by_id = find_documents(documents, names, settings) if documents else {}
    pairs = []
    for letter, text in zip("ab", inline, strict=True):
        if text is not None:
            pairs.append((f"--text-{letter}", text))
            continue
        name = next(rest)
        pairs.append(
            (
                name,
                documents_by_id[name].text
                if documents
                else read_text(name, settings.max_record_bytes),
            )
        )
    return pairs
