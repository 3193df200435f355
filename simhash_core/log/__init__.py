"""The protocol of the one log: packets, look-ups' reports, decisions, and what is put out.

Pure: no clock, no input or output. Workers and the simulator drive the same classes.

- ``sequence``: the number of a document in the log
- ``packets``, ``columns``: documents as columns, and the chain of packets of each raw partition
- ``records``: what stands in the log and on the topic of reports
- ``replica``: what everybody who reads the log knows
- ``shard``, ``shard_stream``: a raw partition on the worker that owns it, from intake to output
- ``recent_uniques``, ``nearest_matches``, ``decider``: the leader
- ``participant``: one worker's part in all of it
- ``local_decider``: the same verdicts with no log, for files
"""
