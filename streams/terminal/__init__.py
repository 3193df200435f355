"""What commands print: text that is safe for a terminal, tables, lines for records, progress.

``cli`` and ``demo`` call it.
"""
