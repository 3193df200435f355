"""Settings: fields, rules, sources, and what of them belongs to an index.

``loader`` reads them from flags, environment and files. Every higher folder takes a ``Settings``.
"""
