"""Settings: their fields, rules and sources, and which of them belong to an index.

``loader`` reads them from flags, environment and files. Every higher folder takes a ``Settings``.
"""
