"""The steps from a text to its fingerprint, as set in profiles."""
