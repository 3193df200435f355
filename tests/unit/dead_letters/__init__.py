"""Dead letters read back, listed and sent again."""
