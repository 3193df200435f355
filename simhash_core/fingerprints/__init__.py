"""SimHash itself, without texts: hashes of features, sums of bits, distance, blocks."""
