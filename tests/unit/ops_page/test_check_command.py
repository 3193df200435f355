"""``firstseen check``: a running worker asked about a text, from a shell."""

from __future__ import annotations

import json
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from streams.cli.main import main
from streams.errors import ExitCode
from tests.rigs.brokers.loopback_ports import free_port
from tests.unit.cli.running import clean_environment
from tests.unit.ops_page.live_worker import ORIGINAL, Live


def test_check_reads_standard_input_and_prints_json(live: Live) -> None:
    arguments = ["check", "-", "--json", "--nearest", "1", "--set", f"web.port={live.worker.port}"]
    result = subprocess.run(
        [sys.executable, "-m", "streams.cli.main", *arguments],
        input=ORIGINAL,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == ExitCode.OK, result.stderr
    answer = json.loads(result.stdout)
    assert answer["verdict"] == "exact_duplicate"
    assert len(answer["nearest"]) == 1


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], ExitCode.USAGE, "either a FILE"),
        (["a.txt", "--text", "b"], ExitCode.USAGE, "either a FILE"),
        (["--text", "b", "--url", "ftp://a"], ExitCode.USAGE, "not a valid address"),
        (["--text", "b", "--url", "http://a:x"], ExitCode.USAGE, "not a valid address"),
        (["--text", "b", "--nearest", "51"], ExitCode.USAGE, "51"),
        (["missing.txt"], ExitCode.USAGE, "missing.txt"),
    ],
)
def test_invalid_check_arguments(
    arguments: list[str], code: ExitCode, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *arguments]) == code
    assert says in capsys.readouterr().err


def test_check_without_a_worker_names_the_address(capsys: pytest.CaptureFixture[str]) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert main(["check", "--text", "b", "--url", url]) == ExitCode.BROKER_UNAVAILABLE
    assert url in capsys.readouterr().err


class OtherServer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>a page of another server</html>")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is inherited
        """Log nothing."""


def test_check_of_another_server_names_its_port(capsys: pytest.CaptureFixture[str]) -> None:
    with HTTPServer(("127.0.0.1", 0), OtherServer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        code = main(["check", "--text", "b", "--url", f"http://127.0.0.1:{server.server_port}"])
        server.shutdown()
    assert code == ExitCode.RUNTIME
    assert str(server.server_port) in capsys.readouterr().err
