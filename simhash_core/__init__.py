"""The pure core of Firstseen: text to fingerprint, fingerprint to verdict.

The way of a document, module by module:

``documents`` → ``normalization`` → ``segmentation`` → ``weighting`` → ``fingerprint`` →
``probes`` → ``blocks`` and ``placement`` → ``block_table`` → ``shard`` → ``verdicts``.

Nothing here knows of Kafka, Faust, RocksDB, the clock or the environment; values go in and
values come out.
"""
