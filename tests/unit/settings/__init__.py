"""Settings: the tree, the layers, the rules, and what Kafka clients get of them."""
