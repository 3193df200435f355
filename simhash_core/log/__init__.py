"""The protocol of the log: packets, reports, decisions and outputs.

These modules use no clock and do no input or output. Workers and the simulator run the same
classes.

- ``records``: records of the log and the reports topic, sequence numbers, watermarks
- ``columns``: conversions between documents, columns and verdicts
- ``replica``: what every reader of the log knows
- ``removals``: what rows of packets remove from the index
- ``shard_stream``: a raw partition on its owner, from intake to output
- ``shards``: the shards and standbys of one worker
- ``unique_documents``: unique documents in memory, of a shard and of the leader
- ``nearest_matches``, ``decider``: the leader
- ``participant``: one worker's part in the protocol
- ``local_decider``: the same verdicts without a log, for files
"""
