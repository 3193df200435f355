"""The ops page of a worker: what it does now, its latest duplicates, and a text looked up.

``page_files`` is what a browser loads; ``api`` is what it then asks for, as JSON; ``access`` says
who may. Nothing here changes the index. ``streams.ops_page.server`` puts it on the wire.
"""
