"""Dead letters for ``firstseen dlq``: reading them, a summary, and sending them again."""
