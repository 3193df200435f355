"""The pure core of Firstseen: text to fingerprint, fingerprint to verdict.

The route of a document, module by module:

``documents`` → ``normalization`` → ``segmentation`` → ``weighting`` → ``fingerprint`` →
``log.packets`` → ``index.look_up`` → ``log.decider`` → ``log.shard_stream`` → ``verdicts``.

Nothing here knows of Kafka, Faust, RocksDB, the clock or the environment; values go in and
values come out.
"""
