"""The index at up to 100 million documents, beside others: ``python -m benchmarks.index``.

- ``documents``: random documents, uniform, or with one bucket that has 5 % of them
- ``shard``: a shard on disk: loaded, opened again, looked up in; each in a process of its own
- ``peers``: the same work by other libraries, in the environment of the peers
- ``figures``: what is measured, and the goals
"""
