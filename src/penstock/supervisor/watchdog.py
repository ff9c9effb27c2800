"""When a node hangs and is to be ended: pure.

A process that hangs keeps its connections. The cluster goes on without it, but its clients do not: librdkafka
waits a minute for the answer to a request before it looks for another leader. The end of the process ends the
connections, and the clients move at once. It is what the watchdog of a service manager does.

Two things show that a node hangs. Its process is stopped (SIGSTOP), which no load of the machine can look
like. Or it has not answered for a while although its process runs, and the cluster has fenced its broker, so
that nothing which it could still do counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.supervisor.layout import Name

STOPPED_S_MAX: Final = 1.0
SILENT_S_MAX: Final = 10.0
"""Several answers are missing, and not because the machine is busy."""
LOOKS_APART_S_MAX: Final = 1.0
"""Who did not look for longer was held up itself, and knows nothing of that time."""


@dataclass(slots=True)
class _Trouble:
    is_stopped: bool
    since: float
    seen_at: float


class Watchdog:
    """Times are seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._troubles: dict[Name, _Trouble] = {}

    def look(self, name: Name, now: float, *, is_stopped: bool, is_silent: bool) -> str | None:
        """Why the process is to be ended; None if it is well, or may still come back."""
        if not (is_stopped or is_silent):
            self._troubles.pop(name, None)
            return None
        trouble = self._troubles.get(name)
        is_new = trouble is None or trouble.is_stopped != is_stopped
        if trouble is None or is_new or now - trouble.seen_at > LOOKS_APART_S_MAX:
            trouble = self._troubles[name] = _Trouble(is_stopped, now, now)
        trouble.seen_at = now
        lasted_s = now - trouble.since
        if lasted_s < (STOPPED_S_MAX if is_stopped else SILENT_S_MAX):
            return None
        del self._troubles[name]
        what = "its process was stopped" if is_stopped else "its broker is fenced, and it has not answered"
        return f"{what} for {lasted_s:.1f} s"
