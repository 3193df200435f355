"""From a text to its fingerprint, as profiles say."""
