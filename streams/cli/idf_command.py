"""``firstseen idf``: train and show tables of term rarity."""

from __future__ import annotations

from pathlib import Path

import click

from streams.cli import options


@click.group()
def idf() -> None:
    """Train and show tables of term rarity (index.idf)."""


@idf.command(short_help="Count terms in files of documents, and write a model.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="MODEL",
    help="The model: a file for index.idf.",
)
@click.option(
    "--name",
    metavar="NAME",
    help="Name of the model in the index identity. [default: the file name of MODEL]",
)
@options.number_option(
    "--terms terms_max",
    click.IntRange(1, 5_000_000),
    "Maximum number of terms to count; each takes about 150 bytes of memory.",
    default=1_000_000,
)
@options.number_option(
    "--least",
    click.IntRange(1, 1_000_000),
    "Omit terms that occur in fewer documents.",
    default=2,
)
@click.option("--force", is_flag=True, help="Replace an existing MODEL.")
@options.json_option
@options.with_local_settings
def train(
    settings: options.Settings,
    *,
    files: tuple[str, ...],
    output: Path,
    name: str | None,
    terms_max: int,
    least: int,
    force: bool,
) -> None:
    """Count the documents of FILE... that contain each term, and write an idf model.

    A FILE has one JSON document per line, or one plain text per line if its name ends in .txt. .gz
    is read as gzip, - is standard input, and a folder has one document per file. The profile's
    segmenter cuts the texts into terms, so train with the settings of the index.

    If there are more than --terms distinct terms, the rarest are dropped. The model then records by
    how much a count may be too low.

    \b
    Examples:
      firstseen idf train news.jsonl.gz -o news.idf
      firstseen idf train archive/ notes.txt -o mixed.idf --terms 200000 --least 5
      firstseen worker --set index.idf=news.idf
    """
    from simhash_core.text.idf import encode_idf
    from streams.offline.idf_training import (
        IdfCorpus,
        checked_name,
        header_text,
        model_object,
        train_idf,
        write_model,
    )
    from streams.terminal.layout import progress_bar

    name = checked_name(name, output)
    if output.exists() and not force:
        raise click.BadParameter(f"{output} exists: --force replaces it", param_hint="-o")
    if options.is_input(output, files):
        raise click.BadParameter(f"{output} is an input itself", param_hint="-o")
    corpus = IdfCorpus(files, settings)
    with progress_bar() as show:
        trained = train_idf(
            corpus,
            settings.index_profile(),
            name=name,
            terms_max=terms_max,
            least=least,
            watch=lambda: show("counting terms", corpus.bytes_read, corpus.total_bytes or 0),
        )
    data = encode_idf(trained.header, trained.table)
    write_model(output, data)
    if corpus.unreadable:
        options.announce(f"{corpus.unreadable:,} lines could not be read as documents")
    text = f"{output}: {header_text(data)}"
    options.write_answer("idf", model_object(data), text)


@idf.command(short_help="Show the origin of a model, and the idf of terms.")
@click.argument("model", metavar="MODEL")
@click.argument("terms", metavar="[TERM]...", nargs=-1)
@options.json_option
def show(model: str, *, terms: tuple[str, ...]) -> None:
    """Show the origin of MODEL, verify its checksum, and print the idf of each TERM.

    \b
    Example:
      firstseen idf show news.idf 的 大桥
    """
    from simhash_core.text.idf import BYTES_MAX, decode_idf
    from simhash_core.text.normalization import normalize
    from streams.offline.idf_training import header_text, model_object
    from streams.settings.named_files import file_content

    data = file_content("idf", model, BYTES_MAX)
    decoded = decode_idf(data)
    idf_of = {term: decoded.idf(normalize(term)) for term in terms}
    lines = [f"{model}: {header_text(data)}"]
    for term, idf in idf_of.items():
        note = "" if normalize(term) in decoded.table else "  not in the table"
        lines.append(f"{idf:>9.4f}  {term}{note}")
    options.write_answer("idf", {**model_object(data), "idf": idf_of}, "\n".join(lines))
