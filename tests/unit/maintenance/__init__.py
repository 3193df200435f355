"""Tests of maintenance that need no broker."""
