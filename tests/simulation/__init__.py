"""The protocol of the one log under random interleavings: no threads, no broker, no clock.

A world with one log, a topic of reports, changelogs and a group that fences commits drives the real
classes of ``simhash_core/log`` and ``simhash_core/index``. One seed draws everything.

- ``documents``: families of near documents, and how they become columns
- ``scenario``: what one seed draws: documents, workers, rates of faults
- ``broker``: the log, reports, changelogs, the group's epochs, and appends that are under way
- ``life``: one process of a worker, with the real ``Participant``
- ``standby_copies``: its standbys of other workers' shards
- ``world``: the scheduler, the faults, and what must be kept when all is done
- ``one_reader``: what a single worker would say that reads the log in order, by brute force
- ``judge``: the invariants, checked at each append and commit, and at the end
- ``mutants``, ``replacements``: rules broken on purpose, to show that the judge sees it
"""
