"""Tests of the protocol of the one log, class by class."""
