"""``firstseen fingerprint``: show the fingerprint of a text, or of each document of a file."""

from __future__ import annotations

import click

from simhash_core.errors import UsageError
from simhash_core.text.profiles import index_digest
from streams.cli import options


@click.command(short_help="Show the fingerprint of a text, or of each document of a file.")
@click.argument("file", metavar="[FILE]", required=False)
@click.option("--text", metavar="TEXT", help="This text, instead of a file.")
@click.option("--jsonl", is_flag=True, help="FILE has a JSON document a line: one line for each.")
@options.top_option("Heaviest terms to show.")
@options.json_option
@options.with_local_settings
def command(
    settings: options.Settings,
    *,
    file: str | None,
    text: str | None,
    jsonl: bool,
    top: int,
    as_json: bool,
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
    """  # noqa: D301 - \b is click's mark for "leave the lines as they are"
    if jsonl and file is None and text is not None:
        raise UsageError("--jsonl is for a FILE of documents: give one, or leave it away")
    if jsonl and file is not None and text is None:
        _show_documents(file, settings, as_json=as_json)
    else:
        _show_text(options.given_text(file, text, settings), settings, top, as_json=as_json)


def _show_text(text: str, settings: options.Settings, top: int, *, as_json: bool) -> None:
    from simhash_core.text.fingerprinter import Fingerprinter
    from streams.cli.text_views import fingerprint_object, fingerprint_view

    fingerprinter = Fingerprinter(settings.index_profile())
    fingerprinted = fingerprinter.fingerprint(text)
    terms = fingerprinter.weighted_terms(text)
    blocks = fingerprint_view(fingerprinter, settings.profile, fingerprinted, terms, top)
    shown = fingerprint_object(fingerprinter, fingerprinted)
    shown["terms"] = [term._asdict() for term in terms[:top]]
    shown["profile"] = settings.profile
    shown["index"] = index_digest(fingerprinter.identity)
    options.write_blocks("fingerprint", shown, blocks, as_json=as_json)


def _show_documents(file: str, settings: options.Settings, *, as_json: bool) -> None:
    from simhash_core.text.fingerprinter import Fingerprinter
    from streams.cli.text_views import fingerprint_object
    from streams.files.text_files import Unreadable, documents_in
    from streams.terminal.layout import one_line

    fingerprinter = Fingerprinter(settings.index_profile())
    for line in documents_in(file, settings):
        if isinstance(line, Unreadable):
            click.echo(f"firstseen: line {line.number + 1}: {line.why}", err=True)
            continue
        fingerprinted = fingerprinter.fingerprint(line.text)
        if as_json:
            shown = {"id": line.id, **fingerprint_object(fingerprinter, fingerprinted)}
            options.write_json("fingerprint", shown)
        else:
            last = fingerprinted.undecidable or str(fingerprinted.features)
            click.echo(f"{one_line(line.id)}\t{fingerprinted.fingerprint.hex() or '-'}\t{last}")
