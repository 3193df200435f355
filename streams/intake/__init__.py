"""From the raw topic to batches of one partition each, with back-pressure and rebalances.

``raw_poller`` polls in a thread, ``raw_consumer`` is its side on the event loop, ``raw_batches``
makes documents of records. ``streams.pipeline`` and ``streams.app`` call it.
"""
