"""One member of a group, as the coordinator remembers it."""

from __future__ import annotations

from dataclasses import dataclass

Protocols = tuple[tuple[str, bytes], ...]


@dataclass(slots=True, kw_only=True)
class Member:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    """(name, metadata) in the member's order of preference."""
    assignment: bytes = b""
    join_token: int | None = None
    """The JoinGroup that waits for an answer."""
    sync_token: int | None = None
    """The SyncGroup that waits for an answer."""
    session_deadline_ms: int | None = None
    """None while a request of the member waits here: it cannot send heartbeats then."""
    is_new: bool = False
    """Has joined and was never answered. Only then does the deadline run although JoinGroup waits."""

    def metadata_for(self, protocol_name: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    def vote(self, candidates: frozenset[str]) -> str:
        """The member's most preferred protocol among those that all members know."""
        return next(name for name, _ in self.protocols if name in candidates)
