"""SimHash itself: hashes of features, sums of bits, distance, blocks. Knows nothing of texts."""
