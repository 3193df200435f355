"""The entry point finds commands, and turns errors into exit codes and one message."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import click
import pytest
from rich.cells import cell_len

from simhash_core.errors import FirstseenError, IndexMismatchError, ProtocolError, UsageError
from streams.cli.main import cli, main
from streams.errors import (
    BrokerRefusedError,
    BrokerUnavailableError,
    ExitCode,
    Problem,
    SettingsError,
    exit_code_of,
    report,
)
from tests.repository.source_tree import ROOT
from tests.unit.cli.running import (
    SECONDS_MAX,
    clean_environment,
    firstseen,
    report_of,
    run_here,
    started_as,
)

COMMANDS = cli.list_commands(click.Context(cli))


@pytest.mark.parametrize("path", [[], *([name] for name in COMMANDS)])
def test_each_command_has_help_that_fits_a_narrow_terminal_and_examples_that_can_be_pasted(
    path: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "50")

    def look_at(path: list[str], command: click.Command | None) -> None:
        assert main([*path, "--help"]) == ExitCode.OK
        text = capsys.readouterr().out
        if isinstance(command, click.Group):
            assert main(path) == ExitCode.OK
            assert capsys.readouterr() == (text, "")
        if len(path) < 2:
            assert [line for line in text.splitlines() if cell_len(line) > 50] == []
        if isinstance(command, click.Group) and path:
            for name, inner in command.commands.items():
                assert f"  {name} " in text
                look_at([*path, name], inner)
        else:
            assert "Example" in text, path
        lines = text.partition("Examples:\n")[2].partition("\n\n")[0].splitlines()
        for line, following in itertools.pairwise(lines):
            if following.startswith("      "):
                assert line.endswith(" \\")

    look_at(path, cli.get_command(click.Context(cli), path[0]) if path else cli)


def test_version_names_firstseen_and_its_parts() -> None:
    assert run_here("--version").stdout == f"firstseen {version('firstseen')}\n"
    versions = report_of("version")
    assert {"firstseen", "faust-streaming", "librdkafka", "python"} <= set(versions)
    assert all(versions.values())


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("firstseen conf", "config"),
        ("firstseen dedup --profile cl", "classic"),
        ("firstseen consume --topic du", "duplicate-of"),
    ],
)
def test_shells_complete_commands_and_values(words: str, completed: str) -> None:
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    result = firstseen(environ={"_FIRSTSEEN_COMPLETE": "bash_complete", **asked})
    assert f"plain,{completed}" in result.stdout.splitlines()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SettingsError([Problem("a", "1", "--set", "no")]), 78),
        (IndexMismatchError("state", "x", "y"), 78),
        (BrokerUnavailableError("no answer"), 69),
        (BrokerRefusedError("no"), 1),
        (UsageError("no"), 2),
        (click.UsageError("no"), 2),
        (click.ClickException("no"), 1),
        (ProtocolError("no"), 1),
        (FirstseenError("no"), 1),
        (OSError("no"), 1),
        (KeyboardInterrupt(), 130),
        (click.Abort(), 130),
    ],
)
def test_errors_have_codes_and_messages_without_a_traceback(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code_of(error) == report(error) == code
    message = capsys.readouterr().err
    assert "Traceback" not in message
    assert message.startswith("firstseen: ") or code == ExitCode.INTERRUPTED


def test_an_internal_error_says_how_to_see_more(capsys: pytest.CaptureFixture[str]) -> None:
    report(ZeroDivisionError("by zero"))
    message = capsys.readouterr().err
    assert "ZeroDivisionError: by zero" in message
    assert "firstseen --debug" in message


def test_debug_shows_the_traceback_before_the_message(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--debug", "config", "validate", "--set", "web.port=0"])
    message = capsys.readouterr().err
    assert code == ExitCode.CONFIGURATION
    assert "Traceback" in message
    assert "web.port" in message.splitlines()[-1]


@pytest.mark.parametrize("command", ["config show", "dedup f.jsonl --unique -"])
@pytest.mark.usefixtures("empty_directory")
def test_a_pipe_that_nobody_reads_ends_a_command_in_silence(command: str, tmp_path: Path) -> None:
    Path("f.jsonl").write_text('{"text": "x"}\n')
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as pipe:
        result = firstseen(*command.split(), stdout=pipe.fileno())

    assert (result.returncode, result.stderr) == (ExitCode.RUNTIME, "")
    assert [path.name for path in tmp_path.iterdir()] == ["f.jsonl"]


@pytest.mark.parametrize("closed", ["<&- dedup -", ">&- plan --documents 5", "2>&- plan --set x=1"])
@pytest.mark.usefixtures("empty_directory")
def test_closed_standard_files_are_as_if_empty(closed: str) -> None:
    """Otherwise a socket gets the descriptor of standard error, and then what is written there."""
    redirection, command = closed.split(" ", 1)
    shell = f"{sys.executable} -m streams.cli.main {command} {redirection}"
    run = subprocess.run(
        ["sh", "-c", shell],
        env=clean_environment() | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
    )
    assert b"internal error" not in run.stderr
    assert run.returncode == (ExitCode.USAGE if "x=1" in command else ExitCode.OK), run.stderr


def test_a_full_disk_is_no_internal_error() -> None:
    with Path("/dev/full").open("w") as full:
        result = firstseen("version", stdout=full.fileno())
    assert result.returncode == ExitCode.RUNTIME
    assert result.stderr.startswith("firstseen: cannot write the output: No space left on device.")


@pytest.mark.usefixtures("empty_directory")
def test_a_terminal_that_lacks_characters_gets_them_as_in_json() -> None:
    """A locale such as zh_CN.GBK; here it is ASCII, which every machine has."""
    Path("😀.jsonl").write_text('{"text": "x"}\n', encoding="utf-8")
    plan, dedup = (
        firstseen(*command.split(), environ={"PYTHONIOENCODING": "ascii"})
        for command in ("plan --documents 5", "dedup 😀.jsonl --json")
    )

    assert (plan.returncode, plan.stderr) == (ExitCode.OK, "")
    assert r"7.0 \u00b5s" in plan.stdout
    assert r"\ud83d\ude00.unique.jsonl" in dedup.stdout
    assert "😀.unique.jsonl" in str(json.loads(dedup.stdout))


@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, ExitCode.TERMINATED)]
)
def test_a_signal_ends_the_wait_for_a_broker(sent: signal.Signals, code: ExitCode) -> None:
    program = (  # prints when the wait begins, which the command itself does not
        "import sys; from streams.cli.main import main; from streams.kafka import connection as b; "
        "connect = b.connect_admin; "
        "b.connect_admin = lambda *a: (print('waiting', flush=True), connect(*a))[1]; "
        "sys.exit(main(['topics', 'check', '--broker', '127.0.0.1:1', '--timeout', '60']))"
    )
    with started_as(sys.executable, "-c", program) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        time.sleep(0.2)  # until it waits
        process.send_signal(sent)
        _, message = process.communicate(timeout=SECONDS_MAX)

    assert process.returncode == code
    assert "Traceback" not in message


def test_a_native_thread_that_calls_late_does_not_crash_the_process() -> None:
    """A callback of C after Python's shutdown stands for a late response of a broker."""
    program = (
        "import atexit, ctypes, sys; from streams.cli.main import run; "
        "late = ctypes.CFUNCTYPE(None)(lambda: None); ctypes.CDLL(None).on_exit(late, None); "
        "atexit.register(print, 'exit functions'); print('begun'); run(['version'])"
    )
    with started_as(sys.executable, "-c", program) as process:
        printed, message = process.communicate(timeout=SECONDS_MAX)

    assert (process.returncode, message) == (ExitCode.OK, "")
    assert printed.startswith("begun")
    assert printed.endswith("exit functions\n")
