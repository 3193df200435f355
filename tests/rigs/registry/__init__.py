"""A schema registry for tests, and records that the real serializers make with it."""
