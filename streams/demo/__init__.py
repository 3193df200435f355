"""The demo: a stream of Chinese and English records whose true relations are known.

`corpus.generate` makes the records, `scoring.score` says how well a filter distinguished copies
from originals, and `changes.describe_change` shows a reader what a copy changed.
"""

from __future__ import annotations
