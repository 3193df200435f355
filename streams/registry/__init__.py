"""The schema registry: schemas fetched and kept, and values decoded by them."""
