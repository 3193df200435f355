"""The topics of an index: how they should be, creating and checking them, their identity."""
