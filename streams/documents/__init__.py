"""From the bytes of a raw record to a document, or to the reason why it is none.

``raw_documents`` is the entry; ``json_values``, ``cloudevents``, ``fields`` and ``timestamps`` are
its parts. Intake, commands on files and the demo call it. It knows neither Kafka nor settings.
"""
