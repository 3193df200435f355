"""A cluster of real workers on a real Kafka, hurt at random, and judged by what it puts out.

``make torture`` runs it (``docs/torture.md``)::

    feed ──► raw topic ──► workers ──► outputs ──► watch (while it runs), judge (when all is done)
                             ▲
                 faults ─────┴──── broker

Everything runs in one event loop: the feed, the watch, the supervisor of the workers, and each
fault is a task of it.
"""
