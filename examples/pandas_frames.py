"""Data frames of pandas: keep the rows that are the first of their kind."""

from __future__ import annotations

import pandas as pd

from firstseen import Deduplicator, DuplicateOf


def without_repeats(frame: pd.DataFrame, seen: Deduplicator, column: str = "text") -> pd.DataFrame:
    """Return the rows whose text repeats no earlier one, in this frame or in frames before."""
    verdicts = seen.add_batch(frame[column], ids=frame.index.map(str))
    return frame[[not isinstance(each, DuplicateOf) for each in verdicts]]


def main() -> None:
    """Show the function with a small frame."""
    text = "北京今天下了入冬以来的第一场雪,地铁和公交照常运行,请市民注意出行安全," * 3
    frame = pd.DataFrame({"text": [text, text + "转发", "another text of no importance " * 9]})
    with Deduplicator() as seen:
        print(without_repeats(frame, seen))


if __name__ == "__main__":
    main()
