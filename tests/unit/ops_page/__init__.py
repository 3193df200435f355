"""Tests of the ops page: access, kept documents, the API on a real worker, and the browser."""
