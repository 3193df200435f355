"""A peer that deduplicates a file, one document after the other, as its users would write it.

Run as a program in the environment of the peers::

    python -m benchmarks.quality.peer NAME DOCUMENTS THRESHOLD…

It writes one line of JSON: for each threshold, the original of each document (its own number if it
is unique, ``REPEATS`` or ``ALIKE`` if the peer names none), and the total CPU seconds. Sketches are
made once, and count for each threshold.

- ``datasketch`` and ``rensa``: MinHash of character 5-grams without white space, 128 permutations,
  LSH. The original is the candidate with the highest estimated Jaccard, if that reaches the
  threshold.
- ``simhash`` (1e0ng): 64 bits of jieba's words that have a letter or a digit, and their counts, in
  its index at that distance. The original is the nearest document within the distance.
- ``rensa_keep``: ``RMinHashDeduplicator.add_pairs``, which says which documents to keep.
- ``rensa_one_shot``: digest matrices by rensa's ``rho``, then all flags at once, as in its own
  benchmark. They say which documents have another one alike, so the first of its kind is one too.
- ``retsim``: the embeddings of ``unisim`` (RETSim, Google, 2023), by its model for CPUs, compared
  with all kept embeddings, as its exact index does. The original is the document with the highest
  cosine, if that reaches the threshold.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from itertools import islice
from typing import Any

PERMUTATIONS = 128
GRAM_CHARACTERS = 5
EMBEDDING = 256

REPEATS = -1
"""The original of a document that repeats an earlier one, where a peer does not say which."""
ALIKE = -2
"""The same of a document that is alike another one, earlier or later."""
TOGETHER = 10_000
"""Documents whose 5-grams are in memory at once."""
PROBES = 4
"""As in rensa's own benchmark."""

Sketch = Callable[[str], Any]
Index = Callable[[float], Callable[[int, Any], int]]
"""Takes a threshold; returns a function that returns the original of a document, given its number
and its sketch.
"""


def texts_in(path: str) -> Iterator[str]:
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)["text"]


def grams(text: str) -> set[str]:
    text = "".join(text.split())
    last = max(1, len(text) - GRAM_CHARACTERS + 1)
    return {text[at : at + GRAM_CHARACTERS] for at in range(last)}


def datasketch() -> tuple[Sketch, Index]:
    library: Any = import_module("datasketch")

    def sketch(text: str) -> Any:  # noqa: ANN401 - what the library makes
        sketch = library.MinHash(num_perm=PERMUTATIONS)
        sketch.update_batch([gram.encode("utf-8", "surrogatepass") for gram in grams(text)])
        return sketch

    def lsh(threshold: float) -> Any:  # noqa: ANN401
        return library.MinHashLSH(threshold=threshold, num_perm=PERMUTATIONS)

    return sketch, _most_alike_by(lsh)


def rensa() -> tuple[Sketch, Index]:
    library: Any = import_module("rensa")

    def sketch(text: str) -> Any:  # noqa: ANN401 - what the library makes
        sketch = library.RMinHash(num_perm=PERMUTATIONS, seed=42)
        sketch.update(list(grams(text)))
        return sketch

    return sketch, _most_alike_by(_rensa_lsh)


def _rensa_lsh(threshold: float) -> Any:  # noqa: ANN401 - what the library makes
    lsh = import_module("rensa").RMinHashLSH
    return lsh(threshold=threshold, num_perm=PERMUTATIONS, num_bands=_bands_for(threshold))


def _most_alike_by(lsh_at: Callable[[float], Any]) -> Index:
    """Return an index that selects the candidate with the highest estimated Jaccard."""

    def index(threshold: float) -> Callable[[int, Any], int]:
        lsh = lsh_at(threshold)
        kept: dict[int, Any] = {}

        def decide(number: int, sketch: Any) -> int:  # noqa: ANN401
            alike = [(-sketch.jaccard(kept[key]), key) for key in lsh.query(sketch)]
            best, original = min(alike, default=(0.0, -1))
            if original >= 0 and -best >= threshold:
                return original
            lsh.insert(number, sketch)
            kept[number] = sketch
            return number

        return decide

    return index


def simhash() -> tuple[Sketch, Index]:
    """Return the sketch and the index of simhash; its threshold is a distance."""
    library: Any = import_module("simhash")
    jieba: Any = import_module("jieba")
    jieba.setLogLevel("WARNING")
    jieba.initialize()

    def sketch(text: str) -> Any:  # noqa: ANN401 - what the library makes
        words = (word for word in jieba.lcut(text) if any(map(str.isalnum, word)))
        # Higher weights would overflow the bytes that it adds up.
        return library.Simhash({word: min(n, 255) for word, n in Counter(words).items()})

    def index(threshold: float) -> Callable[[int, Any], int]:
        near = library.SimhashIndex([], k=int(threshold))
        kept: dict[int, Any] = {}

        def decide(number: int, sketch: Any) -> int:  # noqa: ANN401
            keys = [int(key) for key in near.get_near_dups(sketch)]
            if keys:
                return min(keys, key=lambda key: (sketch.distance(kept[key]), key))
            near.add(str(number), sketch)
            kept[number] = sketch
            return number

        return decide

    return sketch, index


def retsim() -> tuple[Sketch, Index]:
    """Return the sketch and the index of RETSim; its threshold is a cosine."""
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1  # Threads that wait for work spin, which counts as CPU time.
    runtime.InferenceSession = partial(runtime.InferenceSession, sess_options=options)
    library: Any = import_module("unisim")
    numpy: Any = import_module("numpy")
    model = library.TextSim(store_data=False, use_accelerator=False)

    def sketch(text: str) -> Any:  # noqa: ANN401 - what the library makes
        return numpy.asarray(model.embed([text])[0], dtype=numpy.float32)

    def index(threshold: float) -> Callable[[int, Any], int]:
        kept = numpy.empty((1024, EMBEDDING), dtype=numpy.float32)
        numbers: list[int] = []

        def decide(number: int, sketch: Any) -> int:  # noqa: ANN401
            nonlocal kept
            if numbers:
                cosines = kept[: len(numbers)] @ sketch
                nearest = int(cosines.argmax())
                if cosines[nearest] >= threshold:
                    return numbers[nearest]
            if len(numbers) == len(kept):
                kept = numpy.concatenate([kept, numpy.empty_like(kept)])
            kept[len(numbers)] = sketch
            numbers.append(number)
            return number

        return decide

    return sketch, index


PEERS: dict[str, Callable[[], tuple[Sketch, Index]]] = {
    "datasketch": datasketch,
    "rensa": rensa,
    "retsim": retsim,
    "simhash": simhash,
}


def rensa_keep(texts: Iterator[str], threshold: float) -> list[int]:
    library: Any = import_module("rensa")
    deduplicator = library.RMinHashDeduplicator(
        threshold, PERMUTATIONS, use_lsh=True, num_bands=_bands_for(threshold)
    )
    originals: list[int] = []
    for part in _parts(texts):
        entries = ((str(n), grams(text)) for n, text in enumerate(part, len(originals)))
        kept = deduplicator.add_pairs(entries)
        originals += [n if keep else REPEATS for n, keep in enumerate(kept, len(originals))]
    return originals


def rensa_one_shot(texts: Iterator[str], threshold: float) -> list[int]:
    library: Any = import_module("rensa")
    sketch = library.RMinHash.digest_matrix_from_token_sets_rho
    lsh, matrices = _rensa_lsh(threshold), []
    for part in _parts(texts):
        sets = [list(grams(text)) for text in part]
        matrices.append(sketch(sets, num_perm=PERMUTATIONS, seed=42, probes=PROBES))
    if len(matrices) == 1:
        flags = lsh.query_duplicate_flags_matrix_one_shot(matrices[0])
    else:  # a matrix has at most as many documents as have room in memory
        for number, matrix in enumerate(matrices):
            lsh.insert_matrix(matrix, start_key=number * TOGETHER)
        flags = [flag for each in matrices for flag in lsh.query_duplicate_flags_matrix(each)]
    return [ALIKE if flag else number for number, flag in enumerate(flags)]


def _parts(texts: Iterator[str]) -> Iterator[list[str]]:
    while part := list(islice(texts, TOGETHER)):
        yield part


BATCHES: dict[str, Callable[[Iterator[str], float], list[int]]] = {
    "rensa_keep": rensa_keep,
    "rensa_one_shot": rensa_one_shot,
}


def _bands_for(threshold: float) -> int:
    """Return the fewest bands whose own threshold, (1/b)^(1/r), is 0.05 below ``threshold``."""
    divisors = (bands for bands in range(1, PERMUTATIONS + 1) if PERMUTATIONS % bands == 0)
    return next(b for b in divisors if (1 / b) ** (b / PERMUTATIONS) <= threshold - 0.05)


def run(name: str, path: str, thresholds: Sequence[float]) -> list[dict[str, object]]:
    if name in BATCHES:
        return [_run_batch(name, path, threshold) for threshold in thresholds]
    sketch, index = PEERS[name]()
    begun = time.process_time()
    sketches = [sketch(text) for text in texts_in(path)]
    sketched = time.process_time() - begun
    runs: list[dict[str, object]] = []
    for threshold in thresholds:
        begun = time.process_time()
        decide = index(threshold)
        originals = [decide(number, each) for number, each in enumerate(sketches)]
        seconds = sketched + time.process_time() - begun
        runs.append({"threshold": threshold, "originals": originals, "cpu_seconds": seconds})
    return runs


def _run_batch(name: str, path: str, threshold: float) -> dict[str, object]:
    begun = time.process_time()
    originals = BATCHES[name](texts_in(path), threshold)
    seconds = time.process_time() - begun
    return {"threshold": threshold, "originals": originals, "cpu_seconds": seconds}


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], sys.argv[2], [float(each) for each in sys.argv[3:]])))
