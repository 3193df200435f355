"""Files of documents and results: lines, tables, packed files. Workers do not use them."""
