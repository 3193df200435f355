"""Tests of settings: the tree, the layers, the rules, and the properties of Kafka clients."""
