"""The topics of an index: their configuration, creation and check, their ids and watermarks.

Called at the start of a worker, by its watch, and by the commands ``topics`` and ``index``.
"""
