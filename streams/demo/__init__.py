"""The demo: a stream of Chinese and English records with known duplicates, through one worker."""
