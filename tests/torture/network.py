"""The network of a run: a bridge, and for each broker and worker a namespace with an address.

::

    run ── bridge ─┬─ broker-1     each in a namespace of its own (``ip netns``),
                   ├─ broker-2     joined by a veth pair; faults are nft rules and
                   ├─ worker-0     tc queues in the namespace that they hurt
                   └─ …
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import NamedTuple

from tests.rigs.brokers.request_proxy import MARK

SUBNET = "10.219.0"
PREFIX = 24
RUN_HOST = 1
BRIDGE = "bridge0"
DEVICE = "eth0"
COMMAND_SECONDS = 20.0
SMALL_BYTES = 600
"""Limit of small packets, which pass when large ones are lost: acknowledgements and heartbeats."""
BURST_BYTES = 16 * 1024
QUEUE_MS = 400


class NetworkError(RuntimeError):
    """A command of ip, nft or tc failed."""


class Node(NamedTuple):
    name: str
    address: str

    @property
    def launcher(self) -> tuple[str, ...]:
        """The command prefix that runs a command in the node's namespace."""
        return "ip", "netns", "exec", self.name


class Rules(NamedTuple):
    """Statements of nft for packets that arrive at a node, and for packets that leave it."""

    arriving: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()


EVERYBODY = Node("everybody", f"{SUBNET}.0/{PREFIX}")


def between(peers: Sequence[Node], verdict: str) -> Rules:
    """Return rules that apply a verdict to packets from and to the peers."""
    addresses = ", ".join(peer.address for peer in peers)
    # The rules name the device, because a broker also reaches its own controller by its address.
    return Rules(
        arriving=(f"iifname {DEVICE} ip saddr {{ {addresses} }} {verdict}",),
        leaving=(f"oifname {DEVICE} ip daddr {{ {addresses} }} {verdict}",),
    )


def cut(peers: Sequence[Node]) -> Rules:
    return between(peers, "drop")


def loss(peers: Sequence[Node], percent: int) -> Rules:
    return between(peers, f"numgen random mod 100 < {percent} drop")


def loss_of_large(peers: Sequence[Node]) -> Rules:
    """Return rules with which connections are made and kept, but large packets are always lost."""
    return between(peers, f"meta length > {SMALL_BYTES} drop")


class Network:
    """Nodes and the faults between them; created in an enclosure, and removed with it."""

    def __init__(self) -> None:
        self._numbers = count(RUN_HOST + 1)
        self._faults = count(1)
        _run("ip", "link", "add", BRIDGE, "type", "bridge")
        _run("ip", "addr", "add", f"{SUBNET}.{RUN_HOST}/{PREFIX}", "dev", BRIDGE)
        _run("ip", "link", "set", BRIDGE, "up")
        self.run_node = Node("run", f"{SUBNET}.{RUN_HOST}")

    def add(self, name: str) -> Node:
        number = next(self._numbers)
        node = Node(name, f"{SUBNET}.{number}")
        end = f"end{number}"
        _run("ip", "netns", "add", name)
        _run("ip", "link", "add", end, "type", "veth", "peer", "name", DEVICE, "netns", name)
        _run("ip", "link", "set", end, "master", BRIDGE, "up")
        _run("ip", "-n", name, "addr", "add", f"{node.address}/{PREFIX}", "dev", DEVICE)
        for device in ("lo", DEVICE):
            _run("ip", "-n", name, "link", "set", device, "up")
        return node

    @contextmanager
    def obstructed(self, node: Node, rules: Rules) -> Iterator[None]:
        """Apply rules to a node; several may apply at the same time."""
        table = f"fault_{next(self._faults)}"
        lines = [f"add table ip {table}"]
        for chain, hook, statements in (
            ("arriving", "input", rules.arriving),
            ("leaving", "output", rules.leaving),
        ):
            kind = f"type filter hook {hook} priority 0; policy accept;"
            lines.append(f"add chain ip {table} {chain} {{ {kind} }}")
            lines += [f"add rule ip {table} {chain} {statement}" for statement in statements]
        _run(*node.launcher, "nft", "\n".join(lines))
        try:
            yield
        finally:
            _run(*node.launcher, "nft", f"delete table ip {table}")

    @contextmanager
    def slowed(self, node: Node, kilobits_per_second: int) -> Iterator[None]:
        """Limit the rate at which packets leave a node; only one such fault at a time."""
        tc = (*node.launcher, "tc", "qdisc")
        rate, burst, queue = f"{kilobits_per_second}kbit", f"{BURST_BYTES}b", f"{QUEUE_MS}ms"
        limits = ("rate", rate, "burst", burst, "latency", queue)
        _run(*tc, "replace", "dev", DEVICE, "root", "tbf", *limits)
        try:
            yield
        finally:
            _run(*tc, "del", "dev", DEVICE, "root")

    @contextmanager
    def diverted(self, node: Node, peers: Sequence[Node], port: int) -> Iterator[None]:
        """Redirect a node's connections to the peers to a proxy at ``port`` in its namespace.

        Current connections are reset, and also those through the proxy when it ends. Only one such
        fault at a time.
        """
        addresses = ", ".join(peer.address for peer in peers)
        to_peers = f"oifname {DEVICE} ip daddr {{ {addresses} }} meta mark != {MARK}"
        lines = [
            "add table ip divert",
            "add chain ip divert old { type filter hook output priority -200; policy accept; }",
            *(f"add rule ip divert old {line}" for line in self._resets(node, peers)),
            "add chain ip divert new { type nat hook output priority -100; policy accept; }",
            f"add rule ip divert new {to_peers} tcp dport > 0 redirect to :{port}",
        ]
        _run(*node.launcher, "nft", "\n".join(lines))
        try:
            yield
        finally:
            _run(*node.launcher, "nft", "delete table ip divert")

    def _resets(self, node: Node, peers: Sequence[Node]) -> Iterator[str]:
        for statement in self.open_connections(node, peers).leaving:
            yield statement.replace(" drop", " reject with tcp reset")

    def open_connections(self, node: Node, peers: Sequence[Node]) -> Rules:
        """Return rules that block all current connections, but no new ones."""
        addresses = {peer.address for peer in peers}
        listed = _run(*node.launcher, "ss", "-Htn", "state", "established")
        ends = []
        for line in listed.splitlines():
            _, _, local, remote, *_ = line.split()
            address, _, port = remote.rpartition(":")
            if address in addresses:
                ends.append(f"{address} . {port} . {local.rpartition(':')[2]}")
        if not ends:
            return Rules()
        connections = ", ".join(sorted(ends))
        return Rules(
            arriving=(f"ip saddr . tcp sport . tcp dport {{ {connections} }} drop",),
            leaving=(f"ip daddr . tcp dport . tcp sport {{ {connections} }} drop",),
        )


def _run(*command: str) -> str:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    if done.returncode:
        raise NetworkError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout
