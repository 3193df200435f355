"""Verdicts to output records, and the transactions that commit them.

``put_out`` is the cycle that ``streams.pipeline`` runs; ``output_records`` has the records and
``received_outputs`` reads them back, for commands, the demo and tests.
"""
