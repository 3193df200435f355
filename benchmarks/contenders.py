"""What is measured side by side: ``python -m benchmarks.contenders NAME VARIANT`` is a contender.

It reads the documents as one line of JSON, does the work once to warm up, and then once more for
each line that comes, on one processor. Each time it answers with CPU seconds and those of the
clock, as a line of JSON.

- ``firstseen PROFILE``: text to fingerprint by the settings of a profile, a batch at a time
- ``rjieba``: segmentation alone
- ``simhash jieba``: the library of 1e0ng, 64 bits, fed with words and their counts
- ``simhash ngrams``: the same, given the text, of which it takes runs of four characters
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import profile_named

BATCH: Final = 250

Work = Callable[[Sequence[str]], int]
"""Works on texts, and returns how many."""


def firstseen(profile: str) -> Work:
    # Each turn has the same texts, which must not be remembered from one to the next.
    fingerprinter = Fingerprinter(profile_named(profile), remember=False)
    return lambda texts: sum(
        len(fingerprinter.fingerprint_batch(texts[start : start + BATCH]))
        for start in range(0, len(texts), BATCH)
    )


def rjieba(_variant: str) -> Work:
    cut = import_module("rjieba").Jieba().cut
    return lambda texts: sum(cut(text) is not None for text in texts)


def simhash(variant: str) -> Work:
    # Only the environment of the peers has it, and type checkers do not look there.
    fingerprint: Any = import_module("simhash").Simhash
    if variant == "ngrams":
        return lambda texts: sum(fingerprint(text).value is not None for text in texts)
    jieba: Any = import_module("jieba")
    jieba.setLogLevel("WARNING")
    jieba.initialize()
    return lambda texts: sum(
        fingerprint(Counter(jieba.lcut(text))).value is not None for text in texts
    )


CONTENDERS: Final[Mapping[str, Callable[[str], Work]]] = {
    "firstseen": firstseen,
    "rjieba": rjieba,
    "simhash": simhash,
}


def main(name: str, variant: str) -> None:
    """Be the contender until standard input ends."""
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
