"""Tests of the message contract: what is read from raw records, and what is written."""
