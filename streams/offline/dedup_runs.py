"""Runs on a state: begun, continued after an interruption, given up."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from simhash_core.errors import FirstseenError
from streams.files.output_files import OutputFileError
from streams.offline.dedup_inputs import DedupInputs
from streams.offline.dedup_outputs import FLAGS
from streams.offline.dedup_progress import Kind, OutputState, RunProgress


class InterruptedRunError(FirstseenError):
    """An interrupted run is in the way of the new one; the message names both ways on."""


def check_same_command(
    interrupted: RunProgress, inputs: tuple[str, ...], outputs: Mapping[Kind, Path]
) -> None:
    """Raise ``InterruptedRunError`` unless an interrupted run has these files."""
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
    """Return the beginning of a run; ``number`` is 0 without a state."""
    states = {kind: OutputState(path) for kind, path in outputs.items()}
    return RunProgress(run=number, inputs=inputs, outputs=states)


def abandon(run: RunProgress) -> None:
    """Cut the outputs of an interrupted run to what is in the index, so that both agree.

    An output that is gone, or shorter, is left as it is. Raises ``OutputFileError``.
    """
    for output in run.outputs.values():
        try:
            if output.path.is_file() and output.path.stat().st_size > output.length:
                os.truncate(output.path, output.length)
        except OSError as error:
            raise OutputFileError(f"cannot cut {output.path}: {error.strerror}") from error


def skip_done(inputs: DedupInputs, run: RunProgress) -> None:
    """Read over the lines that a run has done; raises ``InterruptedRunError`` if they changed."""
    if not inputs.skip_to(run.file, run.lines, run.digest):
        raise InterruptedRunError(
            f"{run.inputs[run.file]} has changed: its first {run.lines} lines are not those that "
            f"run {run.run} of this state has read. Restore them, or discard the run with "
            f"--abandon."
        )
