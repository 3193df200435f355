"""Builds the container image and runs it: ``make image-test``.

Read-only, as the user of the image, without capabilities, on a volume: health while the broker is
away, 3,000 documents, SIGTERM, kill -9 and the same volume again. It needs root, namespaces, podman
and runc, a base image and a package index. Where one of these is missing, it says which in one
line, and fails only with ``FIRSTSEEN_REQUIRE_TOOLS=1``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.rigs.brokers.kafka_broker import KafkaBroker, why_kafka_cannot_run
from tests.rigs.brokers.loopback_ports import free_port
from tests.rigs.waiting import await_that

ROOT: Final = Path(__file__).resolve().parents[2]
TAG: Final = "localhost/firstseen-test:latest"
WORKER: Final = "firstseen-test-worker"
VOLUME: Final = "firstseen-test-state"
DOCUMENTS: Final = 3_000
BUILD_SECONDS: Final = 900.0
CALL_SECONDS: Final = 120.0
READY_SECONDS: Final = 90.0
END_SECONDS: Final = 10.0
NO_BASE_IMAGE: Final = 75
"""The exit code of ``deploy/image/build.sh`` if there is no base image."""
PROBE_SECONDS: Final = 60.0


class CannotRunHereError(Exception):
    """Something around the image is missing, which says nothing about the image."""


def why_it_cannot_run() -> str | None:
    for program in ("podman", "runc"):
        if shutil.which(program) is None:
            return f"no {program} (Debian, Ubuntu: apt-get install podman runc mmdebstrap)"
    if os.geteuid() != 0:
        return "it needs root"
    namespaces = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True, check=False
    )
    return (
        why_kafka_cannot_run() if namespaces.returncode == 0 else "no namespaces can be made here"
    )


def build(seconds: float) -> None:
    """Build the image; raises ``CannotRunHereError``, or ``SystemExit`` if it cannot be built."""
    with subprocess.Popen(
        [ROOT / "deploy/image/build.sh", TAG],
        env=os.environ | {"FIRSTSEEN_IMAGE_BUILDER": "podman"},
        start_new_session=True,
    ) as building:
        try:
            code = building.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(building.pid, signal.SIGTERM)
            try:
                building.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(building.pid, signal.SIGKILL)
            raise CannotRunHereError(f"the build did not end within {seconds:g} s") from None
    if code == NO_BASE_IMAGE:
        raise CannotRunHereError("the base image can neither be pulled nor made")
    check_that_containers_run()
    if code:
        check_that_packages_can_be_fetched()
        raise SystemExit(f"image-test: the build ended with {code}")


def check_that_containers_run() -> None:
    """Run the base image as the image will be run; raises ``CannotRunHereError``."""
    base = re.search(r"^FROM (\S+)$", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    assert base is not None
    check_that_it_works(
        ["podman", "run", "--rm", *hardened(""), "--user", "10001:10001", base[1], "true"],
        "no container can run",
    )


def check_that_packages_can_be_fetched() -> None:
    """Fetch one of the pinned packages; raises ``CannotRunHereError``."""
    pins = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    (pinned,) = (line for line in pins if line.startswith("msgspec=="))
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-cache-dir", "--no-deps"]
    with tempfile.TemporaryDirectory(prefix="firstseen-image-") as directory:
        check_that_it_works(
            [*pip, "--retries", "1", "--timeout", "15", "--dest", directory, pinned],
            "the package index cannot be reached",
        )


def check_that_it_works(arguments: Sequence[str], otherwise: str) -> None:
    """Run a command; raises ``CannotRunHereError`` with its last line if it fails."""
    try:
        run = subprocess.run(
            arguments, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise CannotRunHereError(f"{otherwise} within {PROBE_SECONDS:g} s") from None
    if run.returncode:
        last = (run.stderr.strip().splitlines() or [f"exit code {run.returncode}"])[-1]
        raise CannotRunHereError(f"{otherwise}: {last}")


def podman(*arguments: str, seconds: float = CALL_SECONDS, check: bool = True) -> str:
    run = subprocess.run(
        ["podman", *arguments], capture_output=True, text=True, timeout=seconds, check=False
    )
    if check and run.returncode:
        raise SystemExit(f"podman {' '.join(arguments)}: {run.stdout}{run.stderr}")
    return run.stdout.strip() or run.stderr.strip()


def hardened(servers: str) -> list[str]:
    """Return the options with which every container runs."""
    return [
        *("--network", "host", "--read-only", "--tmpfs", "/tmp:size=64m"),  # noqa: S108 - inside
        *("--cap-drop", "all", "--security-opt", "no-new-privileges"),
        *("--env", f"FIRSTSEEN_BROKERS={servers}"),
    ]


def command(servers: str, *arguments: str) -> str:
    return podman("run", "--rm", *hardened(servers), TAG, *arguments)


def start(servers: str, port: int) -> None:
    options = ["--env", f"FIRSTSEEN_WEB__PORT={port}", "--env", "FIRSTSEEN_LOG__FORMAT=json"]
    options += ["--env", "FIRSTSEEN_SESSION_TIMEOUT_SECONDS=6"]
    options += ["--volume", f"{VOLUME}:/var/lib/firstseen"]
    podman("run", "--detach", "--name", WORKER, *hardened(servers), *options, TAG)


def succeeds(*arguments: str) -> bool:
    run = subprocess.run(["podman", *arguments], capture_output=True, timeout=60, check=False)
    return run.returncode == 0


healthy = partial(succeeds, "healthcheck", "run", WORKER)
ready = partial(succeeds, "exec", WORKER, "firstseen", "health", "--ready")


def records(servers: str, *topics: str) -> int:
    """Return how many committed records topics have."""
    named = [part for topic in topics for part in ("--topic", topic)]
    lines = command(servers, "consume", "--until-end", "--json", *named).splitlines()
    return sum(line.startswith("{") for line in lines)


def all_are_output(servers: str) -> bool:
    """Whether each document has its record on an output topic, and raises if one has two."""
    sent = records(servers, "raw")
    output = records(servers, "unique", "duplicate-of", "dead-letters")
    assert output <= sent, f"{output} outputs of {sent} documents"
    return output == sent


@contextmanager
def timed(what: str) -> Iterator[None]:
    begun = time.monotonic()
    yield
    print(f"image-test: {what}: {time.monotonic() - begun:.1f} s", flush=True)


def check_limits() -> None:
    """The worker is nobody's root: no capability, no new privileges, nothing to write to."""
    status = podman("exec", WORKER, "cat", "/proc/1/status")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert fields["Uid"].split() == ["10001"] * 4, fields["Uid"]
    assert int(fields["CapEff"], 16) == int(fields["CapBnd"], 16) == 0, fields["CapEff"]
    assert fields["NoNewPrivs"] == "1"
    refused = podman("exec", WORKER, "touch", "/opt/firstseen/x", check=False)
    assert "Read-only file system" in refused, refused


def run(directory: Path, build_seconds: float) -> None:
    with timed("built"):
        build(build_seconds)
    inspected: list[dict[str, Any]] = json.loads(podman("inspect", TAG))
    print(f"image-test: {inspected[0]['Size'] / 1e6:.0f} MB")
    broker = KafkaBroker(directory / "kafka")
    servers, port = broker.bootstrap_servers, free_port()
    podman("volume", "rm", "--force", VOLUME, check=False)
    with broker, timed("topics made"):
        command(servers, "topics", "create", "--partitions", "2", "--timeout", "60")
    try:
        with timed("healthy, and not ready, while the broker is away"):
            start(servers, port)
            await_that(healthy, READY_SECONDS)
            assert not ready()
        check_limits()
        with broker:
            with timed("ready"):
                await_that(ready, READY_SECONDS)
            with timed(f"{DOCUMENTS:,} documents"):
                command(servers, "load", "--documents", str(DOCUMENTS), "--rate", "1000")
                await_that(lambda: all_are_output(servers), READY_SECONDS)
            with timed("ended by SIGTERM"):
                podman("stop", "--time", "60", WORKER)
                assert podman("wait", WORKER) == "0", podman("logs", "--tail", "20", WORKER)
                podman("rm", WORKER)
            with timed("killed while it works, and started again on the same volume"):
                start(servers, port)
                await_that(ready, READY_SECONDS)
                command(servers, "load", "--documents", str(DOCUMENTS), "--seed", "2")
                podman("kill", "--signal", "KILL", WORKER)
                assert podman("wait", WORKER) == "137"
                podman("rm", WORKER)
                start(servers, port)
                await_that(lambda: all_are_output(servers), READY_SECONDS)
    except BaseException:
        print(podman("logs", "--tail", "20", WORKER, check=False), file=sys.stderr)
        raise
    finally:
        podman("rm", "--force", "--time", "5", WORKER, check=False)
        podman("volume", "rm", "--force", VOLUME, check=False)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.image", description=__doc__)
    parser.add_argument(
        "--build-seconds", type=float, default=BUILD_SECONDS, help="time limit of the build"
    )
    options = parser.parse_args()
    reason = why_it_cannot_run()
    if reason is None:
        os.environ["CONTAINERS_CONF"] = str(ROOT / "deploy" / "image" / "containers.conf")
        with tempfile.TemporaryDirectory(prefix="firstseen-image-") as name:
            try:
                run(Path(name), options.build_seconds)
            except CannotRunHereError as error:
                reason = str(error)
    if reason is not None:
        print(f"image-test: skipped: {reason}")
        raise SystemExit(os.environ.get("FIRSTSEEN_REQUIRE_TOOLS") == "1")


if __name__ == "__main__":
    main()
