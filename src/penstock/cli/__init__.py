"""The command line: one module per group of commands, imported only when it is asked for.

Modules with Typer commands do without `from __future__ import annotations`: Typer reads the annotations of
commands when they run.
"""
