"""The output of commands: text that is safe for a terminal, tables, records as lines, progress.

``cli`` and ``demo`` call this folder.
"""
