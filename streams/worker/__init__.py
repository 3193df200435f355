"""A worker: the route of a document from the raw topic to its output.

``process`` builds a worker and runs it. ``app`` has its Faust agents; their stages are ``consume``
and ``fingerprint``, ``order`` and ``look_up``, ``decide``, ``outputs`` and ``commit``. They work on
a ``shard`` for each raw partition, which ``assignment`` opens and closes, and share a ``context``.
``standbys`` are copies of other workers' shards. ``status`` is for pages and probes. ``clients``
has the protocols of what a worker needs from Kafka. All decisions are made on one event loop.
"""
