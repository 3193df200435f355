"""Workers for tests, as processes, with what they get in and put out."""
