"""The contenders of ``benchmarks.fingerprints``, each run as a process of its own.

``python -m benchmarks.contenders NAME VARIANT`` reads the documents as one line of JSON and does
the work once to warm up. Then it does the work once for each further line of input, on one
processor, and each time writes a line of JSON with the seconds of the CPU and of the clock.

- ``firstseen PROFILE``: text to fingerprint by the settings of a profile, batch by batch
- ``rjieba``: segmentation alone
- ``simhash jieba``: the library of 1e0ng, 64 bits, which gets words and their counts
- ``simhash ngrams``: the same library, which gets the text and cuts it into 4-grams of characters
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import profile_named

BATCH: Final = 250

Work = Callable[[Sequence[str]], int]
"""Works on texts, and returns their number."""


def firstseen(profile: str) -> Work:
    # Each turn has the same texts, so nothing may be remembered from one turn for the next.
    fingerprinter = Fingerprinter(profile_named(profile), remember=False)
    return lambda texts: sum(
        len(fingerprinter.fingerprint_batch(texts[start : start + BATCH]))
        for start in range(0, len(texts), BATCH)
    )


def rjieba(_variant: str) -> Work:
    cut = import_module("rjieba").Jieba().cut
    return lambda texts: sum(cut(text) is not None for text in texts)


def simhash(variant: str) -> Work:
    # Only the environment of the peers has these, and type checkers do not see them.
    if variant == "ngrams":
        fingerprint: Any = import_module("simhash").Simhash
    else:
        words: Any = import_module("benchmarks.peers.word_simhash")
        words.load()
        fingerprint = words.fingerprint
    return lambda texts: sum(fingerprint(text) is not None for text in texts)


CONTENDERS: Final[Mapping[str, Callable[[str], Work]]] = {
    "firstseen": firstseen,
    "rjieba": rjieba,
    "simhash": simhash,
}


def main(name: str, variant: str) -> None:
    """Run a contender until standard input ends."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    work = CONTENDERS[name](variant)
    texts = json.loads(sys.stdin.readline())
    print(json.dumps([work(texts)]), flush=True)
    for _ in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        work(texts)
        times = time.process_time() - cpu, time.perf_counter() - wall
        print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
