"""What keeps the demo from being one."""

from __future__ import annotations


class DemoError(Exception):
    """An expected failure; its message is the one line the user sees."""
