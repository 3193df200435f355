"""Namespaces of a run for its processes, networks and mounts, which end with the run in any case.

A run that may cut networks starts itself again in an enclosure. Only this run sees what it creates
there: names of namespaces, the bridge, rules, mounts. When its first process ends, even by SIGKILL,
the kernel ends all others and removes the rest.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from streams.errors import ExitCode

TOOLS = {"unshare": "util-linux", "ip": "iproute2", "tc": "iproute2", "nft": "nftables"}
UNSHARE = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
INSIDE = "FIRSTSEEN_TORTURE_ENCLOSED"
PROBE_SECONDS = 20.0
PROBE = """
set -e
mount -t tmpfs none /run && mkdir /run/netns
ip netns add probe
ip link add bridge0 type bridge
ip link add end0 type veth peer name eth0 netns probe
ip link set end0 master bridge0
ip netns exec probe tc qdisc add dev eth0 root tbf rate 1mbit burst 16kb latency 100ms
ip netns exec probe nft 'add table ip probe
add chain ip probe leaving { type filter hook output priority 0; policy accept; }
add rule ip probe leaving ip daddr 192.0.2.1 numgen random mod 100 < 10 drop
add rule ip probe leaving ip daddr 192.0.2.1 tcp dport 1 reject with tcp reset
add chain ip probe divert { type nat hook output priority -100; policy accept; }
add rule ip probe divert ip daddr 192.0.2.1 tcp dport 1 redirect to :2'
"""
"""Does everything once that a run needs from the kernel and the tools."""


def why_no_enclosure() -> str | None:
    """Return in one line why a run cannot have its own networks; None if it can."""
    if sys.platform != "linux":
        return "it needs the network namespaces of Linux"
    if os.geteuid() != 0:
        return "it makes network namespaces, so it needs root"
    if (reason := missing_tool()) is not None:
        return reason
    try:
        probe = subprocess.run(
            [*UNSHARE, "sh", "-c", PROBE],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"network namespaces were not made within {PROBE_SECONDS:g} s"
    if probe.returncode:
        said = probe.stderr.strip().splitlines() or [f"exit code {probe.returncode}"]
        reason = said[-1]
        return f"network namespaces cannot be made here: {reason}"
    return None


def missing_tool() -> str | None:
    for tool, package in TOOLS.items():
        if shutil.which(tool) is None:
            return f"no {tool} on PATH: install {package}"
    return None


def is_enclosed() -> bool:
    return INSIDE in os.environ


def enclose(command: Sequence[str]) -> None:
    """Replace this process by the command in an enclosure; return only inside the enclosure."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execvpe(UNSHARE[0], [*UNSHARE, *command], {**os.environ, INSIDE: "1"})  # noqa: S606 - no shell is wanted


def furnish() -> None:
    """Prepare an enclosure as its first process: its own names, and an end by SIGTERM."""
    # The machine's /run is not needed, and its names of namespaces are not those of the run.
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
    Path("/run/netns").mkdir()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    # The first process of a namespace gets no signals without a handler.
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(_number: int, _frame: FrameType | None) -> None:
    sys.exit(ExitCode.TERMINATED)
