"""The command line: ``firstseen COMMAND``. ``main.py`` lists the commands and their modules.

At its top a module of commands imports little, and its functions the rest, so that ``--help`` is
fast.
"""
