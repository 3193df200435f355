"""The index at up to 100 million documents, beside others: ``python -m benchmarks.index``.

- ``shard``: a shard of random documents: loaded, opened again, looked up in; a process a step
- ``figures``: what is measured, and the goals
"""
