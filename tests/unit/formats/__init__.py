"""Tests of the formats of docs/formats.md, and of their versions."""
