"""From the bytes of a raw record to a document, or to the reason of its rejection.

``raw_documents`` is the entry point. Nothing here knows Kafka or settings.
"""
