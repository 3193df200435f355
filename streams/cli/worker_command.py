"""``firstseen worker``: run a worker of the stream."""

from __future__ import annotations

import logging

import click

from streams.cli import options


@click.command()
@options.with_settings
def command(settings: options.Settings) -> int:
    """Run a worker of the stream.

    You can start up to one worker for each raw partition; they share the work. SIGTERM or Ctrl-C
    stops a worker after its current batch. You can also kill it at any time without loss.

    \b
    Examples:
      firstseen worker --broker kafka-1:9092
      FIRSTSEEN_LOG__FORMAT=json firstseen worker --config firstseen.toml
      firstseen worker --profile classic --set web.port=6070
    """  # noqa: D301 - \b is click's mark for "leave the lines as they are"
    from simhash_core.errors import FirstseenError
    from streams.errors import ExitCode, exit_code_of
    from streams.settings.settings import LogFormat
    from streams.worker.process import run_worker
    from streams.worker.worker_log import log_end, set_up_logging

    set_up_logging(settings.log)
    try:
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
