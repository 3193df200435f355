"""``firstseen worker``: run a worker of the stream."""

from __future__ import annotations

import logging
import threading

import click

from simhash_core.errors import FirstseenError
from streams.cli import options
from streams.errors import ExitCode, exit_code_of, signals_shown

_PROCESSES_MAX = 256


class _ProcessCount(click.IntRange):
    name = "a number of processes"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        if value == "auto":
            from streams.cli.worker_processes import available_cores

            return min(available_cores(), _PROCESSES_MAX)
        count: int = super().convert(value, param, ctx)
        return count


@click.command()
@click.option(
    "--processes",
    type=_ProcessCount(1, _PROCESSES_MAX),
    metavar="N|auto",
    help="Run this number of workers on this machine and restart those that end; auto: one per "
    "core. A page at web.port lists them; each worker has one of the following ports, and a "
    "directory in state_dir.",
)
@click.option("--process-number", type=int, hidden=True)  # a supervisor has started it
@options.with_settings
@click.pass_obj
def worker(
    arguments: tuple[str, ...] | None,
    settings: options.Settings,
    *,
    processes: int | None,
    process_number: int | None,
) -> int:
    """Run a worker of the stream, or with --processes several.

    You can start up to one worker for each raw partition; they share the work. SIGTERM or Ctrl-C
    stops a worker after its current batch. You can also kill it at any time without loss.

    \b
    Examples:
      firstseen worker --broker kafka-1:9092
      FIRSTSEEN_LOG__FORMAT=json firstseen worker --config firstseen.toml
      firstseen worker --profile classic --set web.port=6070
      firstseen worker --processes auto
    """
    from streams.settings.settings import LogFormat
    from streams.worker.worker_log import log_end, set_up_logging

    set_up_logging(settings.log, process_number)
    try:
        if process_number is not None:  # a supervisor has started this worker
            from streams.cli.worker_launcher import end_when_orphaned
            from streams.cli.worker_processes import settings_of

            threading.Thread(target=end_when_orphaned, daemon=True).start()
            settings = settings_of(settings, process_number)
        elif processes is not None:
            from streams.cli.worker_processes import supervise

            return supervise(settings, processes, arguments or ())
        from streams.worker.process import run_worker

        with signals_shown():
            return run_worker(settings)
    except FirstseenError as error:
        if settings.log.format is not LogFormat.JSON:
            raise
        log_end(error)  # a reader of the log may not see standard error
        return exit_code_of(error)
    except SystemExit as exit_:
        if exit_.code != ExitCode.TERMINATED:
            raise
        # No work has begun, so this stop is clean.
        logging.getLogger("streams.worker.process").info(
            "stopped: SIGTERM, before the worker had joined its group"
        )
        return ExitCode.OK
