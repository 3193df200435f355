"""Workers for tests, as processes, with their inputs and outputs."""
