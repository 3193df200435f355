"""From the bytes of raw records to documents."""
