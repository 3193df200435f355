"""The contest: Firstseen and its alternatives on a real Kafka, in rounds."""
