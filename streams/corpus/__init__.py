"""Generated documents: articles, posts and what copyists change in them, in Chinese and English.

For the demo, the load command, the tuning of thresholds and tests. Knows no Kafka and no index.
"""
