"""Care of an index: what needs no broker."""
