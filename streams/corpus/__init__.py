"""Generated Chinese and English documents for demo, load command, tuning and tests."""
