"""Where the outputs of a run go, and what they may not be written over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from simhash_core.errors import UsageError
from streams.files.input_lines import STANDARD_INPUT
from streams.files.output_files import STANDARD_OUTPUT, ContinuedFile, NewFile, OutputFile, Stream
from streams.files.packed_files import unpacked_name
from streams.offline.dedup_progress import KINDS, Kind, RunProgress

FLAGS: Final[Mapping[Kind, str]] = {kind: f"--{kind.replace('_', '-')}" for kind in KINDS}
"""The option of each output."""

_INPUT_SUFFIXES: Final = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
_STANDARD_OUTPUT_PATH: Final = Path(STANDARD_OUTPUT)


def output_paths(files: Sequence[str], chosen: Mapping[Kind, str | None]) -> dict[Kind, Path]:
    """Return the path of each output, absolute; ``-`` for standard output.

    Where none is given, it is beside the others that are, else beside the only input, else (several
    inputs, a folder, ``-``) in the current directory. Raises ``UsageError`` for invalid paths.
    """
    paths: dict[Kind, Path] = {}
    for kind in KINDS:
        name = chosen[kind] or str(_default(files, chosen, kind))
        if name == STANDARD_OUTPUT:
            paths[kind] = _STANDARD_OUTPUT_PATH
            continue
        path = paths[kind] = Path(name).resolve()
        if path.is_dir():
            raise UsageError(f"{FLAGS[kind]} is {path}, a directory: name a file")
        if not path.parent.is_dir():
            raise UsageError(
                f"{FLAGS[kind]} is {path}: there is no directory {path.parent}; make it first"
            )
        if path.is_file() and any(file != STANDARD_INPUT and path.samefile(file) for file in files):
            raise UsageError(f"{FLAGS[kind]} is {path}, an input itself: name another file")
    _check_distinct(paths)
    return paths


def check_can_be_continued(paths: Mapping[Kind, Path]) -> None:
    """Raise ``UsageError`` for an output that could not be cut and continued after a crash."""
    for kind, path in paths.items():
        if path == _STANDARD_OUTPUT_PATH or _is_stream(path):
            raise UsageError(f"{FLAGS[kind]} is {path}: with --state every output must be a file")
        if path.suffix == ".gz":
            raise UsageError(
                f"{FLAGS[kind]} is {path}: gzip cannot be continued after a crash, so with "
                "--state outputs are plain files: remove .gz"
            )


def check_new(paths: Mapping[Kind, Path], previous: RunProgress | None = None) -> None:
    """Raise ``UsageError`` for an output that exists; ``previous`` is the state's last run."""
    for kind, path in paths.items():
        if not path.is_file():
            continue
        if previous is not None and previous.outputs[kind].path == path:
            raise UsageError(
                f"{FLAGS[kind]} is {path}, which run {previous.run} of this state has written, of "
                f"{', '.join(previous.inputs)}, {previous.all_lines} lines. A new run counts "
                f"each document as a new arrival: name other files, or use --force to overwrite "
                f"these"
            )
        raise UsageError(f"{FLAGS[kind]} is {path}, which exists: use --force to overwrite it")


def open_outputs(run: RunProgress, *, with_state: bool) -> dict[Kind, OutputFile]:
    """Open the outputs of a run, all or none; raises ``OutputFileError``."""
    opened: dict[Kind, OutputFile] = {}
    try:
        for kind in KINDS:
            state = run.outputs[kind]
            if with_state:
                opened[kind] = ContinuedFile(state.path, state.length)
            elif state.path == _STANDARD_OUTPUT_PATH:
                opened[kind] = Stream(None)
            elif _is_stream(state.path):
                opened[kind] = Stream(state.path)
            else:
                opened[kind] = NewFile(state.path)
    except BaseException:
        close_outputs(opened.values())
        raise
    return opened


def close_outputs(outputs: Iterable[OutputFile]) -> None:
    """Close outputs that may not have ended well."""
    for output in outputs:
        output.close()


def _default(files: Sequence[str], chosen: Mapping[Kind, str | None], kind: Kind) -> Path:
    """``news.jsonl.gz`` → ``news.unique.jsonl`` and so on.

    Outputs stay together: a file that nobody named must not appear in a folder of the inputs when
    another output was given a place of its own.
    """
    name = f"{_stem(files)}.{kind.replace('_', '-')}.jsonl"
    for other in chosen.values():
        if other is not None and other != STANDARD_OUTPUT and not _is_stream(Path(other)):
            return Path(other).with_name(name)
    if any(other is not None for other in chosen.values()) or len(files) > 1:
        return Path(name)
    path = Path(files[0])
    return Path(name) if files[0] == STANDARD_INPUT or path.is_dir() else path.with_name(name)


def _stem(files: Sequence[str]) -> str:
    """Return what the names of the outputs begin with."""
    if len(files) > 1:
        return "documents"
    if files[0] == STANDARD_INPUT:
        return "stdin"
    path = Path(files[0]).resolve() if Path(files[0]).is_dir() else Path(files[0])
    stem = unpacked_name(path.name)
    for suffix in _INPUT_SUFFIXES:
        stem = stem.removesuffix(suffix)
    return stem or path.name


def _is_stream(path: Path) -> bool:
    """Whether a path is something that must not be renamed over, such as /dev/null."""
    return path.exists() and not path.is_file()


def _check_distinct(paths: Mapping[Kind, Path]) -> None:
    """Two outputs in one file would be neither; /dev/null takes any number."""
    seen: dict[Path, Kind] = {}
    for kind, path in paths.items():
        if path in seen and not _is_stream(path):
            raise UsageError(
                f"{FLAGS[seen[path]]} and {FLAGS[kind]} are both {path}: name two files"
            )
        seen[path] = kind
