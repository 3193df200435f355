"""The protocol of the one log: packets, look-ups' reports, decisions, and what is put out.

Pure: no clock, no input or output. Workers and the simulator drive the same classes.

- ``sequence``: the number of a document in the log
- ``packets``: documents as columns, and the chain of packets of each raw partition
- ``records``: what stands in the log and on the topic of reports
- ``replica``: what everybody who reads the log knows
- ``shard_stream``: the documents of one raw partition, from intake to output
- ``decider``: the leader
"""
