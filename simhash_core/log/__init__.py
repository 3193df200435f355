"""The protocol of the one log: packets, look-ups' reports, decisions, and what is put out.

Pure: no clock, no input or output. Workers and the simulator drive the same classes.

- ``sequence``: the number of a document in the log
- ``packets``, ``columns``: documents as columns, and the chain of packets of each raw partition
- ``records``: what stands in the log and on the topic of reports
- ``replica``: what everybody who reads the log knows
- ``log_clock``: what has expired at each place of the log
- ``removals``: what rows of packets take out of the index
- ``shard``, ``shard_stream``: a raw partition on the worker that owns it, from intake to output
- ``outputs``: what goes into such a stream and comes out of it
- ``shard_copy``, ``standby``: the entries of a shard on its owner, and on another worker
- ``held_shards``: all shards in the index of one worker
- ``unique_documents``: those that are decided and not stored yet
- ``recent_uniques``, ``nearest_matches``, ``decider``: the leader
- ``participant``: one worker's part in all of it
- ``local_decider``: the same verdicts with no log, for files
"""
