"""The contest: Firstseen on a real Kafka beside what else one could run, side by side, as ratios.

``python -m benchmarks.contest`` runs all of it. A *shape* is one contender on a number of
partitions with one stream of documents; all shapes take turns, round after round, on one broker
that the contest starts. Besides speed it measures latency, what an idle worker costs, and how long
outputs stand still when a worker is killed.
"""
