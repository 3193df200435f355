"""A cluster of real workers on a real Kafka gets random faults, and its outputs are judged.

``make torture`` runs it (``docs/torture.md``)::

    feed ──► raw topic ──► workers ──► outputs ──► watch (while it runs), judge (when all is done)
                             ▲
                 faults ─────┴──── broker

Everything runs in one event loop: the feed, the watch, the supervisor of the workers, and each
fault are tasks.
"""
