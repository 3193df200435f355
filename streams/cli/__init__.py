"""The command line: ``firstseen COMMAND``, one module for each command.

The command ``NAME`` is the module ``NAME_command.py``, which exports ``command``, a click command
or group. The first line of its docstring, without ``firstseen NAME:``, is its line in
``firstseen --help``. At its top it imports only click and ``streams.cli.options``; its functions
import the rest, so that every ``--help`` is instant.
"""
