"""What keeps a cluster from starting."""

from __future__ import annotations


class SupervisorError(Exception):
    """An expected failure; its message is the one line the user sees."""
