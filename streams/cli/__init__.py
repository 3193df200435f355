"""The command line: ``firstseen COMMAND``. ``main.py`` lists the commands and their modules.

A module of commands imports little at its top. Its functions import the rest, so that ``--help``
is fast.
"""
