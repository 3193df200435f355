"""What is measured side by side, as processes: each works when it is its turn.

Run as a program it is a contender: ``python -m benchmarks.contenders NAME VARIANT``. It reads the
documents as one line of JSON, does the work once to warm up, and then once more for each line that
comes, on one processor. Each time it answers with the processor's time and the time of the clock,
in seconds, as a line of JSON.

- ``firstseen PROFILE``: text to fingerprint by the settings of a profile, a batch at a time
- ``rjieba``: segmentation alone. What no fingerprint made of it can beat
- ``simhash jieba``: the library of 1e0ng, 64 bits, what a Python user finds first. It is fed words
  and their counts, which is its weighted form, and faster than the words one by one
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
    words = jieba_words() if variant == "jieba" else None
    return lambda texts: sum(
        fingerprint(words(text) if words else text).value is not None for text in texts
    )


def jieba_words() -> Callable[[str], Mapping[str, int]]:
    """Load jieba's dictionary; return what counts the words of a text."""
    jieba: Any = import_module("jieba")
    jieba.setLogLevel("WARNING")
    jieba.initialize()
    return lambda text: Counter(jieba.lcut(text))


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
