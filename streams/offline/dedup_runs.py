"""Runs on a state: begun, continued after an interruption, given up."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from simhash_core.errors import FirstseenError
from streams.files.input_lines import InputLines
from streams.files.output_files import OutputFileError
from streams.offline.dedup_outputs import FLAGS
from streams.offline.dedup_progress import Kind, OutputState, RunProgress


class InterruptedRunError(FirstseenError):
    """An interrupted run stands in the way of the one asked for; the message names both ways on."""


def check_same_command(
    interrupted: RunProgress, input_name: str, outputs: Mapping[Kind, Path]
) -> None:
    """Raise ``InterruptedRunError`` unless an interrupted run has this input and these outputs."""
    differences = []
    if interrupted.input_name != input_name:
        differences.append(f"it reads {interrupted.input_name}, this one {input_name}")
    differences += [
        f"its {FLAGS[kind]} is {interrupted.outputs[kind].path}, here it is {path}"
        for kind, path in outputs.items()
        if interrupted.outputs[kind].path != path
    ]
    if differences:
        listed = "\n  ".join(differences)
        raise InterruptedRunError(
            f"run {interrupted.run} of this state was interrupted after line "
            f"{interrupted.lines}, and this is another command:\n  {listed}\n"
            "Let that one finish first, by its own command; or give it up with --abandon: what it "
            "has put out stays, the rest of its file is not looked at."
        )


def new_run(number: int, input_name: str, outputs: Mapping[Kind, Path]) -> RunProgress:
    """Return the beginning of a run; ``number`` is 0 without a state."""
    states = {kind: OutputState(path) for kind, path in outputs.items()}
    return RunProgress(run=number, input_name=input_name, outputs=states)


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


def skip_done(lines: InputLines, run: RunProgress) -> None:
    """Read over the lines that a run has done; raises ``InterruptedRunError`` if they changed."""
    if run.lines and not (lines.skip(run.lines) and lines.digest == run.digest):
        raise InterruptedRunError(
            f"{run.input_name} has changed: its first {run.lines} lines are not those that run "
            f"{run.run} of this state has read. Put them back, or give the run up with --abandon."
        )
