"""Files of a ``firstseen dedup`` run: inputs, outputs and progress."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, Literal, NamedTuple
from urllib.parse import quote_from_bytes, unquote_to_bytes

import msgspec

from simhash_core.errors import FirstseenError, UsageError
from simhash_core.verdicts import VERDICT_NAMES
from streams.documents.fields import FieldSettings
from streams.files.document_files import document_files, open_documents, total_size
from streams.files.input_lines import STANDARD_INPUT, Line, LineSource, unpacked_name
from streams.files.output_files import (
    STANDARD_OUTPUT,
    ContinuedFile,
    NewFile,
    OutputFile,
    OutputFileError,
    Stream,
    partial_path,
)
from streams.settings.settings import Settings

# ---- The progress of a run, committed together with the index: JSON in ``StoredProgress.run``.

Kind = Literal["unique", "duplicates", "dead_letters"]
KINDS: Final[tuple[Kind, ...]] = ("unique", "duplicates", "dead_letters")

BLANK: Final = "blank"
DEAD_LETTER: Final = "dead_letter/"
"""Names of a run's counts: ``blank``, those of ``VERDICT_NAMES``, ``dead_letter/<reason>``."""


class OutputState(msgspec.Struct, frozen=True, rename={"length": "bytes"}):
    path: Path  # absolute; percent-encoded in the JSON
    length: int = 0  # in bytes at the last commit


class RunProgress(msgspec.Struct, frozen=True, kw_only=True, rename={"digest": "lines_xxh3"}):
    """The progress of a run; the JSON has its fields in the same order."""

    run: int  # number of the run in this state, from 1; 0 without a state
    finished: bool = False  # all files have been read to their ends
    inputs: tuple[str, ...]  # names of the files
    file: int = 0  # number of the file being read, from 0
    lines: int = 0  # lines of this file that are done
    digest: int = 0  # XXH3-64 of those lines, each ended by a line feed
    lines_before: int = 0  # lines of the files before this one
    outputs: Mapping[Kind, OutputState]
    counts: Mapping[str, int] = {}  # by name: see ``BLANK``

    @property
    def all_lines(self) -> int:
        return self.lines_before + self.lines

    @property
    def documents(self) -> int:
        return sum(self.counts.get(name, 0) for name in VERDICT_NAMES)

    def topic(self, file: int) -> str:
        """Return a file's topic in source positions: documents of another run are new arrivals."""
        name = self.inputs[file]
        return f"{name}#{self.run}" if self.run else name


encode_run: Final = msgspec.json.Encoder(
    enc_hook=lambda path: quote_from_bytes(os.fsencode(path))
).encode
_decode = msgspec.json.Decoder(
    RunProgress, dec_hook=lambda _type, path: Path(os.fsdecode(unquote_to_bytes(path)))
).decode


def decode_run(stored: bytes) -> RunProgress | None:
    """Return the stored run, None if empty; raise ``msgspec.DecodeError`` for anything else."""
    return _decode(stored) if stored else None


# ---- The documents of a run in batches, file by file.

_BATCH_BYTES: Final = 8 << 20


class Batch(NamedTuple):
    """Lines of file number ``file``; ``digest`` is that of its first ``lines_read`` lines."""

    topic: str  # of the file, for source positions
    lines: Sequence[Line]
    file: int = 0
    lines_read: int = 0
    digest: int = 0


class DedupInputs:
    def __init__(
        self, paths: Sequence[str], settings: Settings, left_out: Collection[Path] = ()
    ) -> None:
        """``left_out`` are resolved paths that are not read as part of a folder."""
        self.files: Final = document_files(paths, settings.fields, left_out)
        self._fields: Final[FieldSettings] = settings.fields
        self._longest_bytes: Final = settings.max_record_bytes
        self._batch_lines: Final = settings.batch.documents
        self._source: LineSource | None = None  # the open file, if any
        self._done_bytes = 0
        # Open each once now, to notice a table without the column before the work begins.
        for number, file in enumerate(self.files):
            if file.path != STANDARD_INPUT and not file.texts:
                self._opened(number).close()
        self.total_bytes: Final = total_size(
            path for file in self.files for path in file.texts or (Path(file.path),)
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(file.name for file in self.files)

    @property
    def bytes_read(self) -> int:
        return self._done_bytes + (self._source.bytes_read if self._source else 0)

    def skip_done(self, run: RunProgress) -> None:
        """Skip the lines that a run has done; raise ``InterruptedRunError`` if they changed."""
        source = self._source = self._opened(run.file)
        if run.lines and not (source.skip(run.lines) and source.digest == run.digest):
            raise InterruptedRunError(
                f"{run.inputs[run.file]} has changed: its first {run.lines} lines differ from "
                f"those that run {run.run} of this state has read. Restore them, or discard the "
                "run with --abandon."
            )

    def batches(self, run: RunProgress) -> Iterator[Batch]:
        """Yield the batches of the rest of a run; raise ``InputFileError`` for a damaged file."""
        for number in range(run.file, len(self.files)):
            source = self._source = self._source or self._opened(number)
            topic = run.topic(number)
            with closing(source):
                for lines in _batches(source, self._batch_lines):
                    yield Batch(topic, lines, number, source.lines_read, source.digest)
                self._done_bytes += source.total_bytes or 0
            self._source = None

    def first_lines(self) -> Sequence[Line] | None:
        """Return the first batch of the first file; None for a pipe, which is read only once."""
        first = self.files[0]
        if not first.texts and not Path(first.path).is_file():
            return None
        with closing(self._opened(0)) as source:
            return next(_batches(source, self._batch_lines), [])

    def close(self) -> None:
        if self._source is not None:
            self._source.close()

    def _opened(self, number: int) -> LineSource:
        return open_documents(self.files[number], self._fields, self._longest_bytes)


def _batches(lines: Iterable[Line], limit: int) -> Iterator[list[Line]]:
    """Yield batches of at most ``limit`` lines and about ``_BATCH_BYTES`` bytes."""
    batch: list[Line] = []
    size = 0
    for line in lines:
        batch.append(line)
        size += len(line.content or b"")
        if len(batch) >= limit or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


# ---- Where the outputs of a run go.

FLAGS: Final[Mapping[Kind, str]] = {kind: f"--{kind.replace('_', '-')}" for kind in KINDS}

_INPUT_SUFFIXES: Final = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
_STANDARD_OUTPUT_PATH: Final = Path(STANDARD_OUTPUT)


def output_paths(files: Sequence[str], chosen: Mapping[Kind, str | None]) -> dict[Kind, Path]:
    """Return the absolute path of each output; ``-`` is standard output.

    By default an output is beside another given output; without one, beside the only input; for
    several inputs, a folder or ``-``, in the current directory. Raises ``UsageError`` for invalid
    paths.
    """
    paths: dict[Kind, Path] = {}
    for kind in KINDS:
        name = chosen[kind] or str(_default(files, chosen, kind))
        if name == STANDARD_OUTPUT:
            paths[kind] = _STANDARD_OUTPUT_PATH
            continue
        path = Path(name)
        # ``/dev/stdout`` leads to a pipe that has no path of its own.
        path = paths[kind] = path.absolute() if _is_stream(path) else path.resolve()
        if path.is_dir():
            raise UsageError(f"{FLAGS[kind]} is {path}, a directory: name a file")
        if not path.parent.is_dir():
            raise UsageError(
                f"{FLAGS[kind]} is {path}: there is no directory {path.parent}; create it first"
            )
        for written in (path, partial_path(path)):
            if any(_are_one_file(written, file) for file in files):
                raise UsageError(
                    f"{FLAGS[kind]} is {path}, but {written} is an input itself: name another file"
                )
    for kind, path in paths.items():
        first = next(each for each in KINDS if paths[each] == path)
        if first != kind and not _is_stream(path):  # /dev/null takes any number
            raise UsageError(f"{FLAGS[first]} and {FLAGS[kind]} are both {path}: name two files")
        if (partial := partial_path(path)) in paths.values():
            raise UsageError(
                f"{FLAGS[kind]} is {path}, which is written to {partial}, another output: name "
                "another file"
            )
    return paths


def own_paths(outputs: Mapping[Kind, Path], state: Path | None) -> set[Path]:
    """Return what a run writes itself, which may be in a folder of its inputs.

    An interrupted run has left it there, and the repeated command must read the same files.
    """
    own = {path for output in outputs.values() for path in (output, partial_path(output))}
    return own if state is None else own | {state.resolve()}


def check_can_be_continued(paths: Mapping[Kind, Path]) -> None:
    """Raise ``UsageError`` for an output that cannot be truncated and continued after a crash."""
    for kind, path in paths.items():
        if path == _STANDARD_OUTPUT_PATH or _is_stream(path):
            raise UsageError(f"{FLAGS[kind]} is {path}: with --state every output must be a file")
        if path.suffix == ".gz":
            raise UsageError(
                f"{FLAGS[kind]} is {path}: gzip cannot be continued after a crash, so with "
                "--state outputs are plain files: remove .gz"
            )


def check_new(paths: Mapping[Kind, Path], previous: RunProgress | None = None) -> None:
    """Raise ``UsageError`` for an existing output; ``previous`` is the state's last run."""
    for kind, path in paths.items():
        if not path.is_file():
            continue
        if previous is not None and previous.outputs[kind].path == path:
            raise UsageError(
                f"{FLAGS[kind]} is {path}, which run {previous.run} of this state has written, "
                f"from {', '.join(previous.inputs)}, {previous.all_lines} lines. A new run treats "
                "each document as a new arrival: name other files, or use --force to overwrite "
                "these"
            )
        raise UsageError(f"{FLAGS[kind]} is {path}, which exists: use --force to overwrite it")


def open_outputs(run: RunProgress, *, with_state: bool) -> dict[Kind, OutputFile]:
    opened: dict[Kind, OutputFile] = {}
    try:
        for kind in KINDS:
            state = run.outputs[kind]
            if with_state:
                opened[kind] = ContinuedFile(state.path, state.length)
            elif state.path == _STANDARD_OUTPUT_PATH or _is_stream(state.path):
                opened[kind] = Stream(None if state.path == _STANDARD_OUTPUT_PATH else state.path)
            else:
                opened[kind] = NewFile(state.path)
    except BaseException:
        close_outputs(opened.values())
        raise
    return opened


def close_outputs(outputs: Iterable[OutputFile]) -> None:
    for output in outputs:
        output.close()


def _default(files: Sequence[str], chosen: Mapping[Kind, str | None], kind: Kind) -> Path:
    """Return, for example, ``news.unique.jsonl`` for ``news.jsonl.gz``.

    Outputs stay together: an unnamed one must not appear in a folder of the inputs if another was
    given a place.
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
    if len(files) > 1:
        return "documents"
    if files[0] == STANDARD_INPUT:
        return "stdin"
    path = Path(files[0]).resolve() if Path(files[0]).is_dir() else Path(files[0])
    stem = unpacked_name(path.name)
    for suffix in _INPUT_SUFFIXES:
        stem = stem.removesuffix(suffix)
    return stem or path.name


def _are_one_file(path: Path, file: str) -> bool:
    """Return whether both names lead to one regular file; one that is missing leads nowhere."""
    try:
        status = os.fstat(0) if file == STANDARD_INPUT else Path(file).stat()
        return path.is_file() and os.path.samestat(path.stat(), status)
    except OSError:
        return False


def _is_stream(path: Path) -> bool:
    """Return whether a rename must not replace a path, such as /dev/null."""
    return path.exists() and not path.is_file()


# ---- Runs with a state: start, resume, abandon.


class InterruptedRunError(FirstseenError):
    """An interrupted run prevents a new one; the message names both ways on."""


def check_same_command(
    interrupted: RunProgress, inputs: tuple[str, ...], outputs: Mapping[Kind, Path]
) -> None:
    differences = []
    if interrupted.inputs != inputs:
        before, now = ", ".join(interrupted.inputs), ", ".join(inputs)
        differences.append(f"it reads {before}, this one {now}")
    differences += [
        f"its {FLAGS[kind]} is {interrupted.outputs[kind].path}, here it is {path}"
        for kind, path in outputs.items()
        if interrupted.outputs[kind].path != path
    ]
    if differences:
        listed = "\n  ".join(differences)
        raise InterruptedRunError(
            f"run {interrupted.run} of this state was interrupted after line "
            f"{interrupted.all_lines}, and this is another command:\n  {listed}\n"
            "Repeat that command first to finish it; or discard the run with --abandon, which "
            "keeps its outputs and ignores the rest of its files."
        )


def new_run(number: int, inputs: tuple[str, ...], outputs: Mapping[Kind, Path]) -> RunProgress:
    states = {kind: OutputState(path) for kind, path in outputs.items()}
    return RunProgress(run=number, inputs=inputs, outputs=states)


def abandon(run: RunProgress) -> None:
    """Truncate the outputs of an interrupted run to the part that is in the index."""
    for output in run.outputs.values():
        try:
            if output.path.is_file() and output.path.stat().st_size > output.length:
                os.truncate(output.path, output.length)
        except OSError as error:
            raise OutputFileError(f"cannot cut {output.path}: {error.strerror}") from error
