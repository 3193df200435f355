"""Tests the protocol of the log under random interleavings, without threads, broker or clock.

A simulated world with one log, a topic of reports, changelogs and a group that fences commits runs
the real classes of ``simhash_core/log`` and ``simhash_core/index``. Everything is drawn from one
seed.

- ``documents``: families of near documents, and how they become columns
- ``scenario``: the documents, workers and rates of faults that one seed draws
- ``broker``: the log, reports, changelogs, the group's epochs, and appends in flight
- ``life``: one process of a worker, with the real ``Participant``
- ``standby_copies``: the standbys of one process, copies of other workers' shards
- ``world``: the scheduler, the faults, and what must hold at the end
- ``one_reader``: the verdicts of a single worker that reads the log in order, by brute force
- ``judge``: the invariants, checked at each append and commit, and at the end
- ``simulator``: runs seeds, here and for ``tests.worker_simulation``
- ``mutant``, ``mutants``, ``replacements``: rules broken on purpose, to show that the judge notices
"""
