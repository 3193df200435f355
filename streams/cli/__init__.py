"""The command line: ``firstseen COMMAND``, one module for each command.

A command ``NAME`` is the module ``NAME_command.py`` in this package, which exports ``command``, a
click command or group; ``main`` finds it by its file name. The first line of the module's docstring
is its line in ``firstseen --help``, where it reads ``firstseen NAME: what it does.`` up to the
colon. At its top, such a module imports click and ``streams.cli.options`` alone, and what it runs
inside its functions, so that every ``--help`` is instant.
"""
