"""Where the outputs of a run go, and what they may not be written over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from simhash_core.errors import UsageError
from streams.files.input_lines import STANDARD_INPUT
from streams.files.output_files import STANDARD_OUTPUT, ContinuedFile, NewFile, OutputFile, Stream
from streams.offline.dedup_progress import KINDS, Kind, RunProgress

FLAGS: Final[Mapping[Kind, str]] = {kind: f"--{kind.replace('_', '-')}" for kind in KINDS}
"""The option of each output."""

_STANDARD_OUTPUT_PATH: Final = Path(STANDARD_OUTPUT)


def output_paths(file: str, given: Mapping[Kind, str | None]) -> dict[Kind, Path]:
    """Return the path of each output, absolute; ``-`` for standard output.

    Where none is given it is beside the input (beside ``-``: in the current directory). Raises
    ``UsageError`` for paths that cannot be.
    """
    paths: dict[Kind, Path] = {}
    for kind in KINDS:
        name = given[kind] or str(_default(file, kind))
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
        if path.is_file() and file != STANDARD_INPUT and path.samefile(file):
            raise UsageError(f"{FLAGS[kind]} is {path}, the input itself: name another file")
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
                f"{previous.input_name}, {previous.lines} lines. A new run takes each document "
                "for a new arrival: name other files, or use --force to overwrite these"
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


def _default(file: str, kind: Kind) -> Path:
    """``news.jsonl.gz`` → ``news.unique.jsonl`` and so on."""
    path = Path("stdin" if file == STANDARD_INPUT else file)
    stem = path.name.removesuffix(".gz")
    stem = stem.removesuffix(".jsonl").removesuffix(".ndjson").removesuffix(".json")
    return path.with_name(f"{stem or path.name}.{kind.replace('_', '-')}.jsonl")


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
