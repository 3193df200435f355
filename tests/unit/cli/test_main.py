"""The entry point: commands found, errors turned into exit codes and one message."""

from __future__ import annotations

import itertools
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

import streams.cli
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
from tests.unit.cli.running import clean_environment, firstseen

COMMANDS = cli.list_commands(click.Context(cli))


def test_commands_are_modules() -> None:
    """Given the modules of the package, then each that ends in _command is a command."""
    (directory,) = streams.cli.__path__
    found = {
        path.stem.removesuffix("_command").replace("_", "-")
        for path in Path(directory).glob("*_command.py")
    }

    assert set(COMMANDS) == found
    assert {"config", "topics", "version"} <= found


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Given a command, when asked for help, then it explains itself, and so does each command
    within it; each that can be run shows an example.
    """
    command = cli.get_command(click.Context(cli), name)
    assert command is not None

    def explained(path: list[str], command: click.Command) -> None:
        assert main([*path, "--help"]) == ExitCode.OK
        text = capsys.readouterr().out
        if isinstance(command, click.Group):
            for sub, inner in command.commands.items():
                assert sub in text
                explained([*path, sub], inner)
        else:
            assert "Example" in text, f"{path} shows no example"

    explained([name], command)


def test_help_lists_all_commands_and_imports_none() -> None:
    """Given --help, then every command has a line, and nothing slow is imported for that."""
    program = (
        "import sys; from streams.cli.main import main; code = main(['--help']); "
        "slow = {'faust', 'numpy', 'confluent_kafka', 'rocksdict', 'jieba', 'rjieba', 'msgspec'}; "
        "print('slow:', sorted(slow & set(sys.modules)), code)"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    ).stdout

    assert output.endswith("slow: [] 0\n")
    lines = output.partition("Commands:")[2].splitlines()
    for name in COMMANDS:
        (line,) = (line for line in lines if line.startswith(f"  {name} "))
        assert len(line.split()) > 2


def test_the_version() -> None:
    """Given --version, then it is the installed one."""
    assert firstseen("--version").stdout == f"firstseen {version('firstseen')}\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["confg"], "'config'"),
        (["config", "show", "--jsno"], "--jsno"),
        (["topics", "create", "--partitions", "0"], "1<=x<=4096"),
    ],
)
def test_a_wrong_command_line(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Given a command line that cannot be, then it ends with 2, and says what is wrong."""
    assert main(arguments) == ExitCode.USAGE
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["config"], ["topics"], ["dlq"]])
def test_a_group_without_a_command_shows_its_help(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Given no command, then the help is on standard output, and the exit code is 0."""
    assert main(arguments) == ExitCode.OK
    out, err = capsys.readouterr()
    assert out.startswith(f"Usage: {' '.join(['firstseen', *arguments])}")
    assert "Commands:" in out
    assert err == ""


@pytest.mark.parametrize("path", [[], *([name] for name in COMMANDS)])
def test_help_fits_a_narrow_terminal(
    path: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given 50 columns, then no line of a help page is wider, and what was folded in an example
    can still be pasted.
    """
    monkeypatch.setenv("COLUMNS", "50")
    assert main([*path, "--help"]) == ExitCode.OK
    text = capsys.readouterr().out
    assert [line for line in text.splitlines() if cell_len(line) > 50] == []
    lines = text.partition("Examples:\n")[2].partition("\n\n")[0].splitlines()
    for line, following in itertools.pairwise(lines):
        if following.startswith("      "):
            assert line.endswith(" \\")


@pytest.mark.parametrize("name", ["dedup", "explain", "fingerprint", "check", "plan", "tune"])
def test_only_commands_that_talk_to_kafka_know_a_broker(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Given a command that needs no broker, then it has no option for one."""
    assert main([name, "--help"]) == ExitCode.OK
    assert "--broker" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("firstseen conf", "config"),
        ("firstseen dedup --profile cl", "classic"),
        ("firstseen consume --topic du", "duplicate-of"),
    ],
)
def test_completion(words: str, completed: str) -> None:
    """Given a command line that has begun, then the shell is told how it may go on."""
    result = firstseen(
        environ={
            "_FIRSTSEEN_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        }
    )
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
def test_errors_have_codes(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Given an error of each class, then it has its code, and one message without a traceback;
    none for who pressed Ctrl-C.
    """
    assert exit_code_of(error) == report(error) == code
    message = capsys.readouterr().err
    assert "Traceback" not in message
    assert message.startswith("firstseen: ") or code == ExitCode.INTERRUPTED


def test_an_internal_error_is_called_that(capsys: pytest.CaptureFixture[str]) -> None:
    """Given an error that nobody raises on purpose, then its class is told, and how to see more;
    with debug, the traceback is there.
    """
    report(ZeroDivisionError("by zero"))
    message = capsys.readouterr().err
    assert "ZeroDivisionError: by zero" in message
    assert "firstseen --debug" in message

    try:
        _ = 1 / 0
    except ZeroDivisionError as error:
        report(error, debug=True)
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert "test_main.py" in shown


def test_debug_shows_the_traceback() -> None:
    """Given --debug before the command, when settings are wrong, then message and traceback are
    there, and the code is the same.
    """
    result = firstseen("--debug", "config", "validate", "--set", "web.port=0")

    assert result.returncode == ExitCode.CONFIGURATION
    assert "Traceback" in result.stderr
    assert "web.port" in result.stderr.splitlines()[-1]


def test_a_reader_that_goes_away() -> None:
    """Given output into a pipe that nobody reads any more, then the command ends in silence."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        result = subprocess.run(
            [sys.executable, "-m", "streams.cli.main", "config", "show"],
            env=clean_environment(),
            stdout=write_end,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        os.close(write_end)

    assert (result.returncode, result.stderr) == (ExitCode.RUNTIME, "")


@pytest.mark.parametrize(
    ("sent", "code"),
    [(signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, ExitCode.TERMINATED)],
)
def test_signals(sent: signal.Signals, code: ExitCode) -> None:
    """Given a command that waits for a broker, when it gets a signal, then it ends at once with the
    signal's code, without a traceback.
    """
    arguments = ["topics", "check", "--broker", "127.0.0.1:1", "--timeout", "60"]
    process = subprocess.Popen(
        [sys.executable, "-c", f"{_ANNOUNCE}; import sys; sys.exit(main({arguments!r}))"],
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        time.sleep(0.2)  # into the wait
        process.send_signal(sent)
        _, message = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()

    assert process.returncode == code
    assert "Traceback" not in message


# Says that the wait begins, which no output of the command does.
_ANNOUNCE = (
    "from streams.cli.main import main; from streams.kafka import connection as b; "
    "connect = b.connect_admin; "
    "b.connect_admin = lambda *a: (print('waiting', flush=True), connect(*a))[1]"
)
