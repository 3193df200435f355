"""Files that commands read documents from and write results to: lines, tables, packed files.

``offline``, ``care`` and the commands call it. A worker reads no files of documents.
"""
