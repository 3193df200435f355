"""Detection quality on labelled files, beside the libraries that one would take instead."""
