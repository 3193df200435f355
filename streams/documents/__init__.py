"""Reads the bytes of a raw record as a document, or gives the reason of its rejection.

``raw_documents`` is the entry point. Nothing here knows Kafka or settings.
"""
