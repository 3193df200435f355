"""The contest: Firstseen on a real Kafka beside what else one could run, round after round."""
