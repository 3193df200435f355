"""Whole workers in virtual time: the classes of ``streams`` on clients of a simulated Kafka.

``loop`` is the event loop; ``network``, ``partitions``, ``group``, ``transactions`` and ``cluster``
are the Kafka; ``member``, ``log_clients``, ``committers`` and ``index_clients`` implement
``streams.worker.clients``. A seed draws everything, and repeats exactly.
"""
