"""Tests whole workers in virtual time: the classes of ``streams`` with a simulated Kafka.

``loop`` is the event loop. ``network``, ``partitions``, ``group``, ``transactions`` and ``cluster``
are the simulated Kafka. ``member``, ``log_clients``, ``committers`` and ``index_clients`` implement
``streams.worker.clients``. Everything is drawn from a seed, and a seed repeats exactly.
"""
