"""The pure core of Firstseen: values in, values out, and no I/O.

A document takes this route:

- ``text``: text to fingerprint and sketch, by ``fingerprints``
- ``log.records``: documents as columns in the order of the log
- ``index.look_up``: the nearest match of each document in a shard
- ``log.decider``: verdicts, from the reports of all shards
- ``log.shard_stream``: verdicts, joined with the raw records that wait for them

The modules of this folder define shared types. No document passes through ``analysis``.
"""
