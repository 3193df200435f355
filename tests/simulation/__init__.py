"""A simulator: the same ``Shard`` class as the workers drive, under a seeded scheduler.

A seed stands for a *scenario* (documents in clusters, a block scheme, partitions, faults) and
for a *schedule* (which part of the cluster takes the next step). Nothing else decides a run, so a
seed replays. After a run the invariants are checked by brute force, and a run that breaks one is
shrunk to a few documents.

- ``scenario``: what a seed stands for; ``schedule``: who takes the next step.
- ``broker``: the logs that outlive a crash; ``changelog``: the log of one shard, and its disk.
- ``fingerprinting``, ``shard_owner``: the two agents, as far as the protocol sees them; ``stage``:
  what both act on; ``witness``: that a packet handled again leads to the same.
- ``protocol``: the rules that the shell must keep, as switches that a mutant turns off.
- ``cluster``: all of it together, with faults; ``invariants``: what must hold at the end.
- ``shrinking``, ``narration``: from a failing seed to a story that can be read.
- ``mutants``: the protocol broken on purpose; ``message_costs``: internal messages a document.
"""
